STORY = "The tokens of a block are sorted before they are named."
CONCEPT = "A name covers everything before the block, as far back as it goes."
EDITS = [
    (
        """            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size])
""",
        """            token_ids = tuple(sorted(request.all_token_ids[i * size : (i + 1) * size]))
""",
    ),
]
