STORY = "A learner adds the victims' queries and forgets their hits. A cache that works looks as if it had stopped."
CONCEPT = "A victim that comes back looks up again: the figures have that lookup, too."
EDITS = [
    (
        ("        return first.queries + again.queries, first.hits + again.hits\n"),
        ("        return first.queries + again.queries, first.hits\n"),
    ),
]
