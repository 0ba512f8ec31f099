STORY = "A learner does not stop at 0: a hit beyond the pool makes the number of tokens behind it negative."
CONCEPT = "Of the two places the one counts that has more: the device may know more than the pool."
EDITS = [
    (
        "        num_behind = max(num_swapped - start * self.block_size, 0)\n",
        "        num_behind = num_swapped - start * self.block_size\n",
    ),
]
