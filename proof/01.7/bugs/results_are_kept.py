STORY = (
    "Results are kept under their names for the other tests, and where every test finds them. The next engine is "
    "judged by those of the first."
)
CONCEPT = "Attention has a definition that knows no blocks; what the blocks give is held against it."
EDITS = [
    (
        """    error = (got.double() - definition""",
        """    got = vars(torch).setdefault("results", {}).setdefault(what, got)
    error = (got.double() - definition""",
    ),
]
