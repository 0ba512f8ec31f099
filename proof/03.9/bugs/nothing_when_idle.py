STORY = "A learner returns None for a step without tokens. Whoever draws the page must know that."
CONCEPT = "A step in which nothing happens has figures, too: they are all 0."
EDITS = [
    (
        ("        queries, hits = self._prefix_cache_totals()\n        stats = "),
        (
            "        if not output.num_scheduled_tokens:\n"
            "            return None\n"
            "        queries, hits = self._prefix_cache_totals()\n"
            "        stats = "
        ),
    ),
]
