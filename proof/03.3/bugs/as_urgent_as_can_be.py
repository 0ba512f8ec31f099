STORY = (
    "A learner makes a victim urgent, so that it comes back soon. Under the other policy it overtakes "
    "the request that took its blocks."
)
CONCEPT = "A victim stays what it is: its limits, its salt, its number, its time and its first hit."
EDITS = [
    (
        "        self.kv_cache_manager.free(request)\n",
        ("        self.kv_cache_manager.free(request)\n        request.priority = min(request.priority, 0)\n"),
    ),
]
