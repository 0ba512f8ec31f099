STORY = (
    "Requests are aborted before a step and never while the model runs. No answer ever comes too late, and no id is "
    "taken by somebody else in the middle."
)
CONCEPT = "A schedule may cost time, never a token: let a model say something else at every place."
EDITS = [
    (
        """        sampled = self.compute(output)
        if meanwhile:
            meanwhile()
""",
        """        sampled = self.compute(output)
""",
    ),
    (
        """        scheduler, ran, alive = self.scheduler, list(self.scheduler.running), self.alive
""",
        """        if meanwhile:
            meanwhile()
        scheduler, ran, alive = self.scheduler, list(self.scheduler.running), self.alive
""",
    ),
]
