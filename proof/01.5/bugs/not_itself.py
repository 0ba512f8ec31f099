STORY = "The causal end is one too small. A token does not see its own key, and the first one sees nothing."
CONCEPT = "A row sees up to its own position, however full the last block is."
EDITS = [
    (
        "(tl.load(seq_lens_ptr + request) - rows_after + 1).to(",
        "(tl.load(seq_lens_ptr + request) - rows_after).to(",
    ),
]
