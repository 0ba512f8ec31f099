STORY = "What is prepended is sorted: blocks without a name first. Who puts in decides the order, and not the queue."
CONCEPT = "What a block holds, and how often, says nothing about the order."
EDITS = [
    (
        """        last = self._head
        for block in blocks:
""",
        """        last = self._head
        for block in sorted(blocks, key=lambda block: block.block_hash is not None):
""",
    ),
]
