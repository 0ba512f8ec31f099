STORY = (
    "Binary search for the end of the hit is fast, and right as long as nothing is evicted. With a gap at the "
    "front it finds a block in the middle and believes in everything before it."
)
CONCEPT = "After a gap nothing counts: what comes later was built on what is missing."
EDITS = [
    (
        """            for i in range((request.num_tokens - 1) // self.block_size):
                block = self.block_pool.get_cached_block(hashes[i])
                if block is None:
                    break
                hits.append(block)
""",
        """            low, high = 0, (request.num_tokens - 1) // self.block_size
            while low < high:
                middle = (low + high + 1) // 2
                if self.block_pool.get_cached_block(hashes[middle - 1]) is None:
                    high = middle - 1
                else:
                    low = middle
            hits = [self.block_pool.get_cached_block(name) for name in hashes[:low]]
""",
    ),
]
