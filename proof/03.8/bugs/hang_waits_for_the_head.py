STORY = "A learner goes on with the loop when the head has no blocks. Nothing changes, and the loop asks for ever."
CONCEPT = "A queue is no reason to stand still: if no waiting request can be admitted, all running ones decode."
EDITS = [
    (
        ("            if not self._may_admit(request, num_computed + n, computed_blocks):\n                break\n"),
        ("            if not self._may_admit(request, num_computed + n, computed_blocks):\n                continue\n"),
    ),
]
