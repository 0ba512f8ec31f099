STORY = (
    "A learner charges a token for each block of a long hit, for the work of reading it. Newcomers wait "
    "though the budget has room."
)
CONCEPT = "What the cache holds costs no budget."
EDITS = [
    (
        ("            token_budget -= n\n\n    def _admit"),
        ("            token_budget -= n + (len(computed_blocks) if len(computed_blocks) > 3 else 0)\n\n    def _admit"),
    ),
]
