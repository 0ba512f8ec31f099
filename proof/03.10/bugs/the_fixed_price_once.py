STORY = "A learner pays the fixed price for the swap as a whole and not for each of its two copies."
CONCEPT = "To swap is two copies: each has a price of its own, however little it moves, and one for each byte."
EDITS = [
    (
        "2 * (self.seconds_per_copy + num_tokens * self.bytes_per_token / self.bandwidth)",
        "self.seconds_per_copy + 2 * num_tokens * self.bytes_per_token / self.bandwidth",
    ),
]
