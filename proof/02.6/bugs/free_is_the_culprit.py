STORY = "Two blocks too many are free after a call of free_blocks. It did right with the counts that it was given."
CONCEPT = "The symptom is late and elsewhere: go back to the first record that cannot be."
EDITS = [
    (
        '"mini_vllm.block_pool:BlockPool.touch"',
        '"mini_vllm.block_pool:BlockPool.free_blocks"',
    ),
]
