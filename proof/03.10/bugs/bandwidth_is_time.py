STORY = "A learner takes the bandwidth for seconds per byte."
CONCEPT = "To swap is two copies: each has a price of its own, however little it moves, and one for each byte."
EDITS = [
    (
        "2 * (self.seconds_per_copy + num_tokens * self.bytes_per_token / self.bandwidth)",
        "2 * (self.seconds_per_copy + num_tokens * self.bytes_per_token * self.bandwidth)",
    ),
]
