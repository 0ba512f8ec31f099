STORY = (
    "The result holds the shared blocks as well. Who clears or copies new blocks destroys what others have computed."
)
CONCEPT = "Shared blocks stand first in the table and are held by both; only new ones are returned."
EDITS = [
    (
        """        return new_blocks
""",
        """        return [*computed_blocks, *new_blocks]
""",
    ),
]
