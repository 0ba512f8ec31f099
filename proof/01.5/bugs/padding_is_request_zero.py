STORY = "A row of no request is given to request 0, to keep addresses legal. Its result is no longer 0."
CONCEPT = "The softmax of nothing is 0 here: rows of no request, and of a request without tokens."
EDITS = [
    (
        """tl.load(request_of_row_ptr + row)
""",
        """tl.maximum(tl.load(request_of_row_ptr + row), 0)
""",
    ),
]
