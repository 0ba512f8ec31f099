STORY = (
    "Free hits make up for blocks too few: a request that asks about fewer tokens than its hits have gets a "
    "lower price."
)
CONCEPT = "The price names what leaves the queue, also if the tokens asked about end within the hits."
EDITS = [
    (
        """        num_needed = max(-(-num_tokens // self.block_size) - len(table) - len(computed_blocks), 0)
        if computed_blocks:
            num_needed += sum(block.ref_cnt == 0 for block in computed_blocks)
        return num_needed
""",
        """        num_needed = -(-num_tokens // self.block_size) - len(table) - len(computed_blocks)
        return max(num_needed + sum(block.ref_cnt == 0 for block in computed_blocks), 0)
""",
    ),
]
