STORY = "With charge_cached_tokens only those pay for their hit that were never admitted before."
CONCEPT = "After any calls every step is the one that the rules make of them, and nothing that was given has changed."
EDITS = [
    (
        "num_computed if self.charge_cached_tokens else 0",
        "num_computed if self.charge_cached_tokens and not request.num_preemptions else 0",
    )
]
