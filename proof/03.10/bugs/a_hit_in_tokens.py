STORY = "A learner takes the number of blocks that were found for one of tokens, and gives too many slots."
CONCEPT = "What the prefix cache finds is not copied: only what lies behind it comes from the CPU pool."
EDITS = [
    (
        "        num_behind = max(num_swapped - start * self.block_size, 0)\n",
        "        num_behind = max(num_swapped - start, 0)\n",
    ),
]
