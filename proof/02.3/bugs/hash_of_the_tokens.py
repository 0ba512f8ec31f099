STORY = "The tokens are replaced by Python's hash of each, which is the number itself only below 2**61 - 1."
CONCEPT = "Different tokens give different names, also where a shorter form of them would be equal."
EDITS = [
    (
        """            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size])
""",
        """            token_ids = tuple(hash(token) for token in request.all_token_ids[i * size : (i + 1) * size])
""",
    ),
]
