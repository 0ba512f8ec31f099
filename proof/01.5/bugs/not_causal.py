STORY = (
    "Each row sees the whole sequence, which is right for a decode. In a chunk a token sees those that come after it."
)
CONCEPT = "Each row of a chunk sees one position more than the row before it, and none that comes later."
EDITS = [
    (
        "(tl.load(seq_lens_ptr + request) - rows_after + 1).to(",
        "(tl.load(seq_lens_ptr + request) + 0 * rows_after).to(",
    ),
]
