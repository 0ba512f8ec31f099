STORY = "The price counts eight free hits at most. A longer hit is admitted where there is no room."
CONCEPT = "A long prompt gets all its slots at once, and all its blocks are published."
EDITS = [
    (
        """for block in computed_blocks)
""",
        """for block in computed_blocks[:8])
""",
    ),
]
