STORY = "A learner divides n times n by 2 with //, and an odd number of tokens loses half a pair."
CONCEPT = "To compute again takes a time for each token, and one for each pair of a query and a key: half of n times n."
EDITS = [
    (
        "num_tokens * self.seconds_per_token + num_tokens**2 / 2 * self.seconds_per_pair",
        "num_tokens * self.seconds_per_token + num_tokens**2 // 2 * self.seconds_per_pair",
    ),
]
