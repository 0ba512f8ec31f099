STORY = (
    "A helper that links a block also counts it, and prepend_n counts once more. Blocks that came back without "
    "content are free twice over, and admission believes it."
)
CONCEPT = "The number of free blocks is right after every call."
EDITS = [
    (
        """        assert first is not None
        last.next_free_block = first
""",
        """        assert first is not None
        self.num_free_blocks += len(blocks) if isinstance(blocks, list) else 1
        last.next_free_block = first
""",
    ),
]
