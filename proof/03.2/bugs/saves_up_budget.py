STORY = (
    "A learner carries the budget that a step leaves over into the next one, up to twice the limit. The "
    "buffers of the model have room for one budget."
)
CONCEPT = "In any run a step follows from the two lists, the free blocks and the budget, and from no step before."
EDITS = [
    (
        ("self.max_num_batched_tokens)\n"),
        ('self.max_num_batched_tokens + getattr(self, "_saved", 0))\n'),
    ),
    (
        ("            self._schedule_waiting(output, token_budget)\n"),
        (
            "            self._schedule_waiting(output, token_budget)\n"
            "        self._saved = min(2, max(0, self.max_num_batched_tokens - output.total_num_scheduled_tokens))\n"
        ),
    ),
]
