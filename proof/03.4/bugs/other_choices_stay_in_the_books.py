STORY = (
    "A learner takes a request out of the books when its first choice ends. The ids of the others are never free again."
)
CONCEPT = "A request that ends changes nothing for its neighbours: each gets its token and keeps its order."
EDITS = [
    (
        "                    del self._requests[request_id]\n",
        ("                    if request.choice_index == 0:\n                        del self._requests[request_id]\n"),
    ),
]
