STORY = "The block id stays the int32 that it was in the table. Multiplied, it wraps around in a large cache."
CONCEPT = "A cache may have more numbers than an int32 can count: a place in it takes 64 bits."
EDITS = [
    (
        """        block_id = tl.load(block_tables_ptr + request * table_stride + block).to(tl.int64)
""",
        """        block_id = tl.load(block_tables_ptr + request * table_stride + block)
""",
    ),
    (
        """        slots = block_id * BLOCK_SIZE + offsets
""",
        """        slots = block_id.to(tl.int32) * BLOCK_SIZE + offsets
""",
    ),
]
