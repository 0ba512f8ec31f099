STORY = "A learner lets every query see every key. A query sees only what stands before it: half of them."
CONCEPT = "To compute again takes a time for each token, and one for each pair of a query and a key: half of n times n."
EDITS = [
    (
        "num_tokens * self.seconds_per_token + num_tokens**2 / 2 * self.seconds_per_pair",
        "num_tokens * self.seconds_per_token + num_tokens**2 * self.seconds_per_pair",
    ),
]
