STORY = "The request that says something wrong found it by get_computed_blocks. But that one tells what the pool says."
CONCEPT = "The symptom is late and elsewhere: go back to the first record that cannot be."
EDITS = [
    (
        '"mini_vllm.block_pool:BlockPool.get_new_blocks"',
        '"mini_vllm.kv_cache:KVCacheManager.get_computed_blocks"',
    ),
]
