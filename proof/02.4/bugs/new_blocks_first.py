STORY = (
    "The new blocks are put before the shared ones. The request reads its own future where the common "
    "beginning should be."
)
CONCEPT = "Shared blocks stand first in the table and are held by both; only new ones are returned."
EDITS = [
    ("(*computed_blocks, *new_blocks)", "(*new_blocks, *computed_blocks)"),
]
