STORY = "All requests are small beside the cache. Nobody needs all of it, and nobody would say more than fits into it."
CONCEPT = "Where nothing happens no other law is broken, and no request ever ends: ask for progress."
EDITS = [
    (
        """    run.add("b", 22, max_tokens=9)""",
        """    run.add("b", 9, max_tokens=2)""",
    ),
]
