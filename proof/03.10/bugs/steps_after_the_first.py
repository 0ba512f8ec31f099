STORY = "A learner counts n times n-1 pairs: a token does not see itself."
CONCEPT = "To compute again takes a time for each token, and one for each pair of a query and a key: half of n times n."
EDITS = [
    (
        "num_tokens * self.seconds_per_token + num_tokens**2 / 2 * self.seconds_per_pair",
        "num_tokens * self.seconds_per_token + num_tokens * (num_tokens - 1) / 2 * self.seconds_per_pair",
    ),
]
