STORY = "The parent's names are taken if the child has none. It has some, of another past."
CONCEPT = "A child has its parent's past, so what it was before is not in the names of its blocks."
EDITS = [
    (
        ("        child.block_hashes = list(parent.block_hashes)\n"),
        ("        child.block_hashes = child.block_hashes or list(parent.block_hashes)\n"),
    ),
]
