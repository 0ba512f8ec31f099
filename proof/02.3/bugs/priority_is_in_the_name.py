STORY = "Requests of different priority do not share, as if it were a second salt."
CONCEPT = "Only tokens and salt are in a name: nothing else about a request is."
EDITS = [
    (
        """            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size])
""",
        """            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size])
            token_ids = (request.priority, *token_ids) if request.priority else token_ids
""",
    ),
]
