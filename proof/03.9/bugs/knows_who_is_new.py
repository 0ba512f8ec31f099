STORY = (
    "A learner looks who is in the batch and did not run at the last record. Whoever was admitted meanwhile has "
    "grown, and was not even looked up as far."
)
CONCEPT = "Nothing gets lost: what was not recorded yet is in the next record."
EDITS = [
    (
        ("        self.scheduler = scheduler\n"),
        ("        self.scheduler = scheduler\n        self._ran = list(scheduler.running)\n"),
    ),
    (
        ("        queries, hits = self._prefix_cache_totals()\n        stats = "),
        (
            "        cached = scheduler.kv_cache_manager.enable_prefix_caching\n"
            "        new = [r for r in output.scheduled_requests if r not in self._ran and cached]\n"
            "        self._ran = list(scheduler.running)\n"
            "        queries, hits = self._prefix_cache_totals()\n"
            "        stats = "
        ),
    ),
    (
        (
            "            prefix_cache_queries=queries - self._queries,\n"
            "            prefix_cache_hits=hits - self._hits,\n"
        ),
        (
            "            prefix_cache_queries=sum(r.num_tokens for r in new),\n"
            "            prefix_cache_hits=sum(r.num_computed_tokens for r in new),\n"
        ),
    ),
]
