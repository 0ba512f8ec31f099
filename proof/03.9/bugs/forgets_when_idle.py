STORY = "A learner clears the window in a step without lookups. The rate drops to 0 whenever nobody is admitted."
CONCEPT = "A step without a look-up pushes nothing out, and does not change the rate."
EDITS = [
    (
        ("        if stats.requests == edges[-1][0]:\n            return\n"),
        (
            "        if stats.requests == edges[-1][0]:\n"
            "            edges.clear()\n"
            "            edges.append((stats.requests, stats.queries, stats.hits))\n"
            "            return\n"
        ),
    ),
]
