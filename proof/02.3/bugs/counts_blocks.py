STORY = (
    "The second result is the number of blocks, where tokens are asked for. The request computes nearly "
    "everything again, into blocks that others are reading."
)
CONCEPT = "A hit is as long as the common prefix, in whole blocks, and in the order of the prefix."
EDITS = [
    ("        return hits, len(hits) * self.block_size", "        return hits, len(hits)"),
]
