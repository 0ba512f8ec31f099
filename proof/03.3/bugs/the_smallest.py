STORY = "A learner takes whoever has least to lose. A request that came back early and is short pays for everybody."
CONCEPT = "The youngest gives way: the last that was admitted, whoever else is small or cheap or late."
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
