STORY = "What is prepended is sorted by the ids first, since the tests of its author had ids that ascend."
CONCEPT = "What is prepended is taken next, in the order given."
EDITS = [
    (
        """        last = self._head
        for block in blocks:
""",
        """        last = self._head
        for block in sorted(blocks, key=lambda block: block.block_id):
""",
    ),
]
