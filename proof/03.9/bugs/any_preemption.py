STORY = "A learner remembers the largest number so far. The peak of a count is shown as the count."
CONCEPT = "A preemption belongs to the step in which it happens, and to no other."
EDITS = [
    (("        self.scheduler = scheduler\n"), ("        self.scheduler = scheduler\n        self._victims = 0\n")),
    (
        ("        queries, hits = self._prefix_cache_totals()\n        stats = "),
        (
            "        self._victims = max(self._victims, len(output.preempted_req_ids))\n"
            "        queries, hits = self._prefix_cache_totals()\n"
            "        stats = "
        ),
    ),
    (
        ("            num_preempted_reqs=len(output.preempted_req_ids),\n"),
        ("            num_preempted_reqs=self._victims,\n"),
    ),
]
