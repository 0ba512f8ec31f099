STORY = (
    "A learner marks the victim and forgets the blocks. The one that asked still finds none, and everybody is "
    "preempted."
)
CONCEPT = "A victim gives back every block, the one it has just begun too."
EDITS = [
    (
        ("        self.kv_cache_manager.free(request)\n"),
        "",
    ),
]
