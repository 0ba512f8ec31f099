STORY = (
    "A learner goes on to the next prompt when one does not fit, to fill the step. The long prompt starves "
    "behind the short ones."
)
CONCEPT = "A deferred head is not refused: it keeps its place, and no request behind it passes."
EDITS = [
    (
        "        while token_budget > 0 and len(self.running) < self.max_num_seqs:\n",
        (
            "        for request in list(self.waiting):\n"
            "            if token_budget == 0 or len(self.running) == self.max_num_seqs:\n"
            "                break\n"
        ),
    ),
    (
        ("            request = self._next_waiting()\n            if request is None:\n                break\n"),
        "",
    ),
    (
        ("                if output.num_scheduled_tokens:\n                    break\n"),
        ("                if output.num_scheduled_tokens:\n                    continue\n"),
    ),
    (
        ("            if not self._may_admit(request, num_computed + n, computed_blocks):\n                break\n"),
        ("            if not self._may_admit(request, num_computed + n, computed_blocks):\n                continue\n"),
    ),
]
