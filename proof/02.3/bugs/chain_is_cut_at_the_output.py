STORY = "The first block that has only output begins a new chain."
CONCEPT = "Whatever came and went, names are equal where the prefix is, and the longest prefix is found."
EDITS = [
    (
        """                if hashes
""",
        """                if hashes and (i * size != request.num_prompt_tokens or size == 1)
""",
    ),
]
