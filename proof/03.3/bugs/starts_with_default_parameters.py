STORY = "A learner makes fresh sampling parameters for a victim. It goes on at another temperature."
CONCEPT = "A victim stays what it is: its limits, its salt, its number, its time and its first hit."
EDITS = [
    (
        "        self.kv_cache_manager.free(request)\n",
        (
            "        self.kv_cache_manager.free(request)\n"
            "        request.sampling_params = type(request.sampling_params)()\n"
        ),
    ),
]
