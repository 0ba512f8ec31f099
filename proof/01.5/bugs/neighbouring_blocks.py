STORY = "The first block is looked up, the others are taken to follow it. In an empty cache they do."
CONCEPT = "The table says where the blocks lie, in any order and with other blocks between."
EDITS = [
    (
        """        block_id = tl.load(block_tables_ptr + request * table_stride + block).to(tl.int64)
""",
        """        block_id = tl.load(block_tables_ptr + request * table_stride).to(tl.int64) + block
""",
    ),
]
