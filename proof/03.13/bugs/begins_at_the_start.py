STORY = "The head start is not written down: blocks of the hit are computed again."
CONCEPT = "An admitted request has left waiting, from any place in it, and runs last, past its head start."
EDITS = [
    (
        "        request.num_computed_tokens = num_computed_tokens\n",
        "        request.num_computed_tokens = 0\n",
    ),
]
