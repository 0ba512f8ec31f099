STORY = (
    "Every chunk gets blocks of its own, rounded up by itself. The end of the last block stays empty, and the "
    "addresses of all later tokens are wrong."
)
CONCEPT = "A prompt may come in chunks: each goes on where the last one ended."
EDITS = [
    (
        """            num_needed = self.num_blocks_needed(request, num_slots, computed_blocks)
""",
        """            num_needed = -(-num_new_tokens // block_size) + sum(block.ref_cnt == 0 for block in computed_blocks)
""",
    ),
]
