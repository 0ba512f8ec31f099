STORY = "A learner forgets the tokens and the CPU blocks of a request, and not its pairs."
CONCEPT = "A CPU block is the target of one copy: the copy of a request that has ended is no longer made."
EDITS = [
    (
        "        self._saving.pop(request_id, None)  # its CPU blocks may be another's in this very step\n",
        "",
    ),
]
