STORY = (
    "A learner knows one of the two objects. Under memory pressure the same prompts are looked up again and "
    "again, and the page is silent."
)
CONCEPT = "A victim that comes back looks up again: the figures have that lookup, too."
EDITS = [
    (
        ("        return first.queries + again.queries, first.hits + again.hits\n"),
        ("        return first.queries, first.hits\n"),
    ),
]
