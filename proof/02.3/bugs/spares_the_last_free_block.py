STORY = "A hit is passed over when it is the only free block: it would leave none for the tokens behind it."
CONCEPT = "A block is found whether a request holds it or not, and how many are free does not matter."
EDITS = [
    (
        """                if block is None:
""",
        """                if block is None or (block.ref_cnt == 0 and self.block_pool.num_free_blocks == 1):
""",
    ),
]
