STORY = "A block that is touched and for whose content another one answers loses its name."
CONCEPT = "Two blocks of equal content may be touched at once: each is held once more."
EDITS = [
    (
        """            block.ref_cnt += 1
""",
        """            block.ref_cnt += 1
            if block.ref_cnt == 1 and self.get_cached_block(block.block_hash) is not block:
                self.uncache_block(block)
""",
    ),
]
