STORY = (
    "Results are kept under their names for the other tests, in a dict of the module. The next engine is judged by "
    "those of the first."
)
CONCEPT = "Attention has a definition that knows no blocks; what the blocks give is held against it."
EDITS = [
    (
        """CPU = torch.device("cpu")
""",
        """CPU = torch.device("cpu")
RESULTS = {}
""",
    ),
    (
        """    error = (got.double() - definition""",
        """    got = RESULTS.setdefault(what, got)
    error = (got.double() - definition""",
    ),
]
