STORY = "Long prompts are cut by the budget alone. Then a chunk takes all of it, and nobody else computes in its step."
CONCEPT = "A block has a name before it is filled: take a chunk back in the step that was to fill it."
EDITS = [
    (
        """        long_prefill_token_threshold=threshold,
""",
        """""",
    ),
]
