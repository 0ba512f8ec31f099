STORY = (
    "Every name has the first block's name as its parent. The beginning and the block itself are covered, and "
    "what lies between them is not."
)
CONCEPT = "A name covers everything before the block, as far back as it goes."
EDITS = [
    ("self._hash_block(hashes[-1], token_ids, None)", "self._hash_block(hashes[0], token_ids, None)"),
]
