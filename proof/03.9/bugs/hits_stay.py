STORY = "A learner takes the requests and the queries of old steps out of the sums, and forgets their hits."
CONCEPT = "What is old leaves: the window has as many requests as it may, and loses whole steps, the oldest first."
EDITS = [
    (
        ("        self.max_recent_requests = max_recent_requests\n"),
        ("        self.max_recent_requests = max_recent_requests\n        self._first_hits = stats.hits\n"),
    ),
    (
        ("        return (all_hits - hits) / (all_queries - queries) if all_queries > queries else 0.0\n"),
        (
            "        hits = self._first_hits\n"
            "        return (all_hits - hits) / (all_queries - queries) if all_queries > queries else 0.0\n"
        ),
    ),
]
