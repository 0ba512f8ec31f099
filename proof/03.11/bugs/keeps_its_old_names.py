STORY = (
    "The names of the child's blocks are left as they are. A beam that is given up for a better one "
    "publishes the new tokens under the old names."
)
CONCEPT = "A child has its parent's past, so what it was before is not in the names of its blocks."
EDITS = [
    (
        ("        child.block_hashes = list(parent.block_hashes)\n"),
        "",
    ),
]
