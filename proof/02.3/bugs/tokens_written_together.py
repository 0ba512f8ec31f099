STORY = "The tokens of a block are written one behind the other as one number: 1, 23 and 12, 3 are equal."
CONCEPT = "Different tokens give different names, also where a shorter form of them would be equal."
EDITS = [
    (
        """            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size])
""",
        """            token_ids = (int("".join(map(str, request.all_token_ids[i * size : (i + 1) * size]))) % 2**62,)
""",
    ),
]
