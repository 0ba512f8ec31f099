STORY = (
    "All rows of a chunk see what its first row sees. The causal end was worked out for the tile and not for the row."
)
CONCEPT = "Each row of a chunk sees one position more than the row before it, and none that comes later."
EDITS = [
    (
        "        rows_after = tl.load(query_start_loc_ptr + request + 1) - row",
        "        rows_after = tl.load(query_start_loc_ptr + request + 1) - tl.load(query_start_loc_ptr + request)",
    ),
]
