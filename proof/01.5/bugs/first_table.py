STORY = (
    "The row of the table is left out of the address, so that of request 0 is read. Every request attends to the "
    "first one's keys."
)
CONCEPT = "A row belongs to one request: its table, its length, and its place among this request's rows count."
EDITS = [
    (
        """        block_id = tl.load(block_tables_ptr + request * table_stride + block).to(tl.int64)
""",
        """        block_id = tl.load(block_tables_ptr + 0 * request * table_stride + block).to(tl.int64)
""",
    ),
]
