STORY = (
    "The loop is written around blocks[0] and blocks[-1]. Nothing to append is an everyday call, made for "
    "every table of useless blocks, and it ends with an IndexError."
)
CONCEPT = "To put nothing in, or to take nothing out, changes nothing; an empty queue gives nothing."
EDITS = [
    (
        "        self.append_n(blocks)",
        """        if blocks:
            self.append_n(blocks)""",
    ),
    (
        """        last = self._tail.prev_free_block
        assert last is not None
""",
        """        blocks = list(blocks)
        last = self._tail.prev_free_block
        assert last is not None
        blocks[0].prev_free_block = last
""",
    ),
]
