STORY = "A learner counts the bytes and forgets what it costs to start a copy."
CONCEPT = "To swap is two copies: each has a price of its own, however little it moves, and one for each byte."
EDITS = [
    (
        "2 * (self.seconds_per_copy + num_tokens * self.bytes_per_token / self.bandwidth)",
        "2 * num_tokens * self.bytes_per_token / self.bandwidth",
    ),
]
