STORY = "The author has V1 in mind, where whoever runs computes in every step, and asserts it. Others let decodes wait."
CONCEPT = "Late, slow, unfair, too large: none of that is a wrong token, and no reason to be red."
EDITS = [
    (
        """        sampled = self.model.execute(output)
        if""",
        """        self.see.true('who runs computes', len(output.scheduled_requests) == len(self.scheduler.running))
        sampled = self.model.execute(output)
        if""",
    ),
]
