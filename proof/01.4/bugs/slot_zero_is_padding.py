STORY = "The condition says above 0. The very first slot of the cache is never written."
CONCEPT = "Slot 0 is a slot like any other; only negative ones are padding."
EDITS = [
    (
        """    if slot >= 0:
""",
        """    if slot > 0:
""",
    ),
]
