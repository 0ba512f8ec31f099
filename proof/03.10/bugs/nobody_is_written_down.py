STORY = "A learner forgets the pairs only of those whose copies are confirmed."
CONCEPT = "A CPU block is the target of one copy: the copy of a request that has ended is no longer made."
EDITS = [
    (
        "        self._saving.pop(request_id, None)  # its CPU blocks may be another's in this very step\n",
        ("        if request_id in self._loading:\n            self._saving.pop(request_id, None)\n"),
    ),
]
