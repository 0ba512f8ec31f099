STORY = "result() divides the sum in place. The next call divides it again."
CONCEPT = "result() only reads: more pieces may follow, and the same answer comes twice."
EDITS = [
    (
        """        return self.weighted_sum / self.normaliser[..., None]
""",
        """        self.weighted_sum /= self.normaliser[..., None]
        return self.weighted_sum
""",
    ),
]
