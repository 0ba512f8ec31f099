STORY = (
    "A learner remembers the readings in steps that sample, since a prompt ends with its first token. A prompt "
    "in chunks is counted once for each chunk."
)
CONCEPT = "A lookup belongs to the step that admits: a step without admission has none, whatever was counted before."
EDITS = [
    (
        ("        self._queries, self._hits = queries, hits\n        return stats\n"),
        (
            "        counts = output.num_scheduled_tokens\n"
            "        if any(scheduler.needs_sample(r, counts[r.request_id]) for r in output.scheduled_requests):\n"
            "            self._queries, self._hits = queries, hits\n"
            "        return stats\n"
        ),
    ),
]
