STORY = "A learner looks for the first request that fits. Small ones pass the large one for ever."
CONCEPT = "While the head of the queue does not fit, those behind it wait too, so it cannot starve."
EDITS = [
    (
        (
            "while token_budget > 0 and len(self.running) < self.max_num_seqs:\n"
            "            request = self._next_waiting()\n"
            "            if request is None:\n"
            "                break\n"
        ),
        (
            "for request in list(self.waiting):\n"
            "            if token_budget <= 0 or len(self.running) >= self.max_num_seqs:\n"
            "                break\n"
        ),
    ),
    (
        (
            "if n > token_budget or not self._may_admit(request, num_computed + n, computed_blocks):\n"
            "                break"
        ),
        (
            "if n > token_budget or not self._may_admit(request, num_computed + n, computed_blocks):\n"
            "                continue"
        ),
    ),
]
