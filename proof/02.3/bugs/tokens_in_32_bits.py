STORY = "Tokens are written in 32 bits, and what does not fit is cut off."
CONCEPT = "Different tokens give different names, also where a shorter form of them would be equal."
EDITS = [
    (
        "tuple(request.all_token_ids[i * size : (i + 1) * size])",
        "tuple(token & 0xFFFFFFFF for token in request.all_token_ids[i * size : (i + 1) * size])",
    )
]
