STORY = "A learner rebuilds the books in the order of the ids. The order of arrival is lost."
CONCEPT = "A request that ends changes nothing for its neighbours: each gets its token and keeps its order."
EDITS = [
    (
        "                    del self._requests[request_id]\n",
        (
            "                    self._requests = {name: self._requests[name] for name in sorted(self._requests) "
            "if name != request_id}\n"
        ),
    ),
]
