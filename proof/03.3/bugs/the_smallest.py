STORY = "A learner takes whoever has least to lose. A request that came back early and is short pays for everybody."
CONCEPT = (
    "The youngest gives way: the last that was admitted, whatever the size, the time or the priority of the others."
)
EDITS = [
    (
        "return self.running.pop()",
        (
            "victim = min(reversed(self.running), key=lambda request: request.num_computed_tokens)\n"
            "            self.running.remove(victim)\n"
            "            return victim"
        ),
    ),
]
