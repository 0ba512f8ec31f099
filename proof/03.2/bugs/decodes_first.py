STORY = (
    "A learner serves the decodes among those that run before the prompts. A chunk that was to go on "
    "stands still when the budget is short."
)
CONCEPT = "In any run a step follows from the two lists, the free blocks and the budget, and from no step before."
EDITS = [
    (
        "self._schedule_running(list(self.running)",
        "self._schedule_running(sorted(self.running, key=lambda r: r.num_tokens - r.num_computed_tokens > 1)",
    ),
]
