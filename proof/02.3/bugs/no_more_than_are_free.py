STORY = "A hit is cut to the number of free blocks, though held hits cost nothing."
CONCEPT = "A block is found whether a request holds it or not, and how many are free does not matter."
EDITS = [
    (
        "        return hits, len",
        """        hits = hits[: max(self.block_pool.num_free_blocks, 0)] if any(b.ref_cnt for b in hits) else hits
        return hits, len""",
    ),
]
