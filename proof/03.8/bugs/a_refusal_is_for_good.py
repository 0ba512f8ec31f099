STORY = (
    "A learner notes which head found no blocks, so as not to look it up again in every step, and never clears "
    "the note. It waits for ever, and with it the queue."
)
CONCEPT = "A queue is no reason to stand still: if no waiting request can be admitted, all running ones decode."
EDITS = [
    (
        ("            if not self._may_admit(request, num_computed + n, computed_blocks):\n                break\n"),
        (
            "            if getattr(self, 'refused', None) is request:\n"
            "                break\n"
            "            if not self._may_admit(request, num_computed + n, computed_blocks):\n"
            "                self.refused = request\n"
            "                break\n"
        ),
    ),
]
