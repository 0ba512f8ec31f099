STORY = "free_blocks() takes the name of a block that many tables still hold."
CONCEPT = "A block may be held by any number of tables, and it keeps its content all the while."
EDITS = [
    (
        "            block.ref_cnt -= 1\n",
        """            block.ref_cnt -= 1
            if block.ref_cnt > 4:
                self.uncache_block(block)
""",
    ),
]
