STORY = "The tokens are written into the wrong slots, so the writer must be at fault. It writes where it is told."
CONCEPT = "The first wrong letter is not the first mistake: go back to the number that cannot be."
EDITS = [
    (
        '"mini_vllm.attention.metadata:to_slots"',
        '"mini_vllm.attention.reference:ReferenceBackend.write_kv"',
    ),
]
