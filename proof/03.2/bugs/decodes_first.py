STORY = (
    "A learner serves the decodes among those that run before the prompts. A chunk that was to go on "
    "stands still when the budget is short."
)
CONCEPT = (
    "In any run every step follows from who runs, who waits, what is free and the budget, and from nothing before."
)
EDITS = [
    (
        "self._schedule_running(list(self.running)",
        "self._schedule_running(sorted(self.running, key=lambda r: r.num_tokens - r.num_computed_tokens > 1)",
    ),
]
