STORY = (
    "A block that is missing is skipped and the search goes on. The blocks behind the gap slide forward in the "
    "table, to positions that they were not computed for."
)
CONCEPT = "After a gap nothing counts: what comes later was built on what is missing."
EDITS = [
    (
        """                    break
""",
        """                    continue
""",
    ),
]
