STORY = (
    "A learner returns when somebody waits and no block is free. Those who run have room in their last blocks, "
    "and only they could make some."
)
CONCEPT = "A queue is no reason to stand still: if no waiting request can be admitted, all running ones decode."
EDITS = [
    (
        "        if not output.num_scheduled_tokens:\n            self._schedule_running(list",
        (
            "        if self.waiting and self.kv_cache_manager.num_free_blocks == 0:\n"
            "            return output\n"
            "        if not output.num_scheduled_tokens:\n"
            "            self._schedule_running(list"
        ),
    ),
]
