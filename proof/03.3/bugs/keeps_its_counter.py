STORY = (
    "A learner thinks that the request can go on where it was. It computes its next token on blocks that are "
    "somebody else's."
)
CONCEPT = "The counter goes back to 0; what the request knows, its output included, stays."
EDITS = [
    (
        ("        request.num_computed_tokens = 0\n"),
        "",
    ),
]
