STORY = "A constant from vLLM's default configuration stays in the code. Every other block size writes somewhere else."
CONCEPT = "A slot is split by dividing by block_size, which may be any number."
EDITS = [
    (
        "divmod(slot, metadata.block_size)",
        "divmod(slot, 16)",
    ),
]
