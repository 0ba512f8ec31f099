STORY = (
    "A learner has nothing to say of an idle step and says what it said before. The page shows the last busy "
    "step for as long as nobody comes."
)
CONCEPT = "A step in which nothing happens has figures, too: they are all 0."
EDITS = [
    (
        ("        scheduler = self.scheduler\n        queries"),
        (
            "        if not output.num_scheduled_tokens and self._last:\n"
            "            return self._last\n"
            "        scheduler = self.scheduler\n"
            "        queries"
        ),
    ),
    (("        self.scheduler = scheduler\n"), ("        self.scheduler = scheduler\n        self._last = None\n")),
    (
        ("        self._queries, self._hits = queries, hits\n        return stats\n"),
        ("        self._queries, self._hits = queries, hits\n        self._last = stats\n        return stats\n"),
    ),
]
