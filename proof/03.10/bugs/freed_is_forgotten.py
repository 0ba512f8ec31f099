STORY = "A learner forgets everybody who is freed. A victim is freed, too, right after it was swapped out."
CONCEPT = "It comes back to where it was: the tokens in the CPU pool need no computing."
EDITS = [
    (
        "        super().free(request)\n",
        ("        super().free(request)\n        self.connector.request_finished(request)\n"),
    ),
]
