STORY = "Tokens are cut to 16 bits. Vocabularies have more than 65,536 entries."
CONCEPT = "Different tokens give different names, also where a shorter form of them would be equal."
EDITS = [
    (
        """            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size])
""",
        """            token_ids = tuple(token & 0xFFFF for token in request.all_token_ids[i * size : (i + 1) * size])
""",
    ),
]
