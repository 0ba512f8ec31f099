STORY = "A table of at most 16 columns is walked, as long as the tests' sequences were."
CONCEPT = "Whatever the batch, attention is a softmax over all keys in sight."
EDITS = [
    (
        "tl.cdiv(end, BLOCK_SIZE)):",
        "tl.minimum(tl.cdiv(end, BLOCK_SIZE), begin // BLOCK_SIZE + 16)):",
    ),
]
