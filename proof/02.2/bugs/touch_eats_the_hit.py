STORY = "touch() takes the blocks out of the list that it is given. The scheduler then builds a table without its hits."
CONCEPT = "Lists belong to the caller: none that is given is changed, and none is kept."
EDITS = [
    (
        """        for block in blocks:
            if block.ref_cnt == 0:
""",
        """        blocks = blocks if isinstance(blocks, list) else list(blocks)
        while blocks:
            block = blocks.pop(0)
            if block.ref_cnt == 0:
""",
    ),
]
