STORY = "A learner multiplies all by the number of tokens, as if each token were a copy of its own."
CONCEPT = "To swap is two copies: each has a price of its own, however little it moves, and one for each byte."
EDITS = [
    (
        "2 * (self.seconds_per_copy + num_tokens * self.bytes_per_token / self.bandwidth)",
        "2 * num_tokens * (self.seconds_per_copy + self.bytes_per_token / self.bandwidth)",
    ),
]
