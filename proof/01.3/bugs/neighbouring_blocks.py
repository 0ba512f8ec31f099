STORY = (
    "The first block is looked up, the others are taken to follow it in memory. It is right in an empty cache, "
    "where blocks are handed out in order."
)
CONCEPT = "The table says where the blocks lie, in any order and with other blocks between."
EDITS = [
    (
        """        keys = key_cache[block_table[block], tokens].float()
""",
        """        block_id = block_table[begin // block_size] + block - begin // block_size
        keys = key_cache[block_id, tokens].float()
""",
    ),
    (
        """        values = value_cache[block_table[block], tokens].float()
""",
        """        values = value_cache[block_id, tokens].float()
""",
    ),
]
