STORY = (
    "prepend_n closes the gap in one direction. The old front still thinks that it stands first, so when it is "
    "removed everything before it is lost."
)
CONCEPT = "The blocks that stay know their new neighbours, whichever call brought them."
EDITS = [
    (
        """        last.next_free_block = first
        first.prev_free_block = last""",
        "        last.next_free_block = first",
    ),
]
