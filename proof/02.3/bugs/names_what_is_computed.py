STORY = "Once a request has computed tokens, only their blocks have names. A block that the coming step fills has none."
CONCEPT = "Names depend on the tokens that are known, not on how many are computed or whether it runs."
EDITS = [
    (
        "request.num_tokens // size)",
        "(request.num_computed_tokens or request.num_tokens) // size)",
    ),
]
