STORY = "A learner rounds the threshold up to whole blocks. A chunk of 4 tokens is 6 with blocks of 3."
CONCEPT = "In any run both rules answer from the state of the moment, whatever they answered before."
EDITS = [
    (
        "num_new_tokens = min(num_new_tokens, threshold)",
        (
            "size = self.kv_cache_manager.block_size\n"
            "            num_new_tokens = min(num_new_tokens, -(-threshold // size) * size)"
        ),
    ),
]
