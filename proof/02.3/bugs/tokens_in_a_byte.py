STORY = "Tokens are cut to a byte, since letters fit into one."
CONCEPT = "Different tokens give different names, also where a shorter form of them would be equal."
EDITS = [
    (
        """            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size])
""",
        """            token_ids = tuple(token & 255 for token in request.all_token_ids[i * size : (i + 1) * size])
""",
    ),
]
