STORY = (
    "A learner gives back the blocks that nobody else holds, and leaves the shared ones. Their count is "
    "never lowered again, and they are lost for good."
)
CONCEPT = "A shared block stays with the others that hold it, and is free when the last one lets go."
EDITS = [
    (
        "self.kv_cache_manager.free(request)",
        (
            "kv = self.kv_cache_manager\n"
            "        table = kv._tables.get(request.request_id, [])\n"
            "        table[:] = [block for block in table if block.ref_cnt == 1]\n"
            "        kv.free(request)"
        ),
    ),
]
