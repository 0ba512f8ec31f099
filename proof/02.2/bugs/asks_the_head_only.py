STORY = (
    "Whether a table is worth keeping is asked of its first block. The last block of a prompt is seldom full, "
    "and it waits at the back like the cached ones."
)
CONCEPT = "In one table the full blocks are cached and the last is not: each goes where it belongs."
EDITS = [
    (
        """        for block in reversed(table):
            assert block.ref_cnt > 0, f"{block} is freed more often than it is held"
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                (useless if block.block_hash is None else cached).append(block)
""",
        """        for block in reversed(table):
            assert block.ref_cnt > 0, f"{block} is freed more often than it is held"
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                (useless if table[0].block_hash is None else cached).append(block)
""",
    ),
]
