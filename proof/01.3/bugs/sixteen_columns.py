STORY = "A table of at most 16 columns is walked, as long as the tests' sequences were."
CONCEPT = "Whatever the shapes, attention over blocks is a softmax over all keys in sight."
EDITS = [
    (
        "-(-end // block_size)):",
        "min(-(-end // block_size), begin // block_size + 16)):",
    ),
]
