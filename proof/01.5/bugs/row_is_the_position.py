STORY = (
    "The position is taken to be the row's place in the chunk. The tokens that earlier chunks computed are forgotten."
)
CONCEPT = "Each row of a chunk sees one position more than the row before it, and none that comes later."
EDITS = [
    (
        "(tl.load(seq_lens_ptr + request) - rows_after + 1).to(",
        "(row - tl.load(query_start_loc_ptr + request) + 1 + 0 * rows_after).to(",
    ),
]
