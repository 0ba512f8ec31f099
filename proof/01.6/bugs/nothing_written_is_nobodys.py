STORY = "A request that has written nothing is passed over. Its slots are counted as free."
CONCEPT = "A request that has written nothing yet holds its slots all the same: they are reserved or wasted."
EDITS = [
    (
        """        held = memory.num_held(request_id)
""",
        """        if not num_written:
            continue
        held = memory.num_held(request_id)
""",
    ),
]
