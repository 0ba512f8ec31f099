STORY = "Rows that come after are counted to the end of the batch. Only the last request finds its positions."
CONCEPT = "A row belongs to one request: its table, its length, and its place among this request's rows count."
EDITS = [
    (
        "        rows_after = tl.load(query_start_loc_ptr + request + 1) - row",
        "        rows_after = tl.num_programs(0) - row",
    ),
]
