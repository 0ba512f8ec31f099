STORY = "A batch has 4 requests at most; the rows of the others become 0."
CONCEPT = "A row belongs to one request: its table, its length, and its place among this request's rows count."
EDITS = [
    (
        """    if request >= 0:""",
        """    if (request >= 0) & (request < 4):""",
    ),
]
