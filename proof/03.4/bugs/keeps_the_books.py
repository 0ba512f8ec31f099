STORY = "A learner forgets the dictionary. The engine never becomes idle, and the id is refused for ever."
CONCEPT = "A request that ends leaves at once: it is not in running, its blocks are free, and so is its id."
EDITS = [
    (
        ("                    del self._requests[request_id]\n"),
        "",
    ),
]
