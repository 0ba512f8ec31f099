STORY = "Each softmax writes its results into one buffer, so an earlier result becomes the later one."
CONCEPT = "result() only reads: more pieces may follow, and the same answer comes twice."
EDITS = [
    (
        """        return self.weighted_sum / self.normaliser[..., None]
""",
        """        if not hasattr(self, '_buffer'):
            self._buffer = torch.empty_like(self.weighted_sum)
        return torch.div(self.weighted_sum, self.normaliser[..., None], out=self._buffer)
""",
    ),
]
