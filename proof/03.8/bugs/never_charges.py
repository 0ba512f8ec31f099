STORY = "A learner overlooks the option. A run that should show what charging for hits costs shows nothing."
CONCEPT = (
    "charge_cached_tokens: the budget pays for the whole prompt, and a long one is deferred though little is computed."
)
EDITS = [
    (
        "num_charged = num_computed if self.charge_cached_tokens else 0",
        "num_charged = 0",
    ),
]
