STORY = (
    "A learner resets the counter first. free() believes that nothing was computed, and throws the whole prefix "
    "out of the cache."
)
CONCEPT = "What was computed can still be found: until its blocks are taken, a victim gets them back as a hit."
EDITS = [
    (
        ("        self.kv_cache_manager.free(request)\n"),
        ("        request.num_computed_tokens = 0\n        self.kv_cache_manager.free(request)\n"),
    ),
    (
        ("        request.status = RequestStatus.PREEMPTED\n        request.num_computed_tokens = 0\n"),
        ("        request.status = RequestStatus.PREEMPTED\n"),
    ),
]
