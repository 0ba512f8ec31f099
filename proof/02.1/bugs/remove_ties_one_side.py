STORY = (
    "Who comes from singly linked lists ties the left neighbour to the right one and stops there. The right "
    "neighbour still points at the block that left, so the next removal beside it writes into the void."
)
CONCEPT = "A block leaves from wherever it stands, and no other block moves."
EDITS = [
    (
        """        after.prev_free_block = before
        block.prev""",
        """        if after is self._tail:
            after.prev_free_block = before
        block.prev""",
    ),
]
