STORY = (
    "A learner looks up the request to preempt by its id in a dictionary of its own, which keeps the "
    "first one of each id. A later one keeps its counter and never waits."
)
CONCEPT = "In any run a victim is the last, gives back all but its tokens, and stands at the front of the queue."
EDITS = [
    (
        ("        self.kv_cache_manager.free(request)\n"),
        ('        known = self.__dict__.setdefault("_known", {})\n        self.kv_cache_manager.free(request)\n'),
    ),
    (
        "request.num_preemptions += 1",
        "known.setdefault(request.request_id, request).num_preemptions += 1",
    ),
]
