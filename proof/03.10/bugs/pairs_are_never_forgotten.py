STORY = "A learner forgets the tokens and the CPU blocks of a request, and not its pairs."
CONCEPT = "A CPU block is the target of one copy: that of somebody who has ended is not made any more."
EDITS = [
    (
        "        self._saving.pop(request_id, None)  # its CPU blocks may be another's in this very step\n",
        "",
    ),
]
