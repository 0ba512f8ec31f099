STORY = (
    "The position is worked out from the row's place in the batch, as if its request came first. Rows behind a "
    "decode see too much."
)
CONCEPT = "Each row of a chunk sees one position more than the row before it, and none that comes later."
EDITS = [
    (
        "        rows_after = tl.load(query_start_loc_ptr + request + 1) - row",
        """        num_rows = tl.load(query_start_loc_ptr + request + 1) - tl.load(query_start_loc_ptr + request)
        rows_after = tl.maximum(num_rows - row, 1)""",
    ),
]
