STORY = (
    "The head learns who stands first now, but that block still points at the one that was taken. Its removal "
    "changes nothing: the queue goes on handing it out."
)
CONCEPT = "The blocks that stay know their new neighbours, whichever call brought them."
EDITS = [
    (
        """        self._head.next_free_block = block
        block.prev_free_block = self._head""",
        "        self._head.next_free_block = block",
    ),
]
