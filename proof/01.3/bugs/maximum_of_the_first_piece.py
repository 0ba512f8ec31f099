STORY = (
    "The maximum is stored once, with the first piece, and later pieces are only compared with it. Two blocks "
    "are right; from the third on, the sums have been scaled twice."
)
CONCEPT = "A new maximum scales both sums down, by exp(old maximum - new maximum), at every piece."
EDITS = [
    (
        """        self.maximum = maximum
""",
        """        if torch.isinf(self.maximum).all():
            self.maximum = maximum
""",
    ),
]
