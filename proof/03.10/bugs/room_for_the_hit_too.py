STORY = "A learner asks for slots for everything that was swapped out, although the hit brings its own."
CONCEPT = "What the prefix cache finds is not copied: only what lies behind it comes from the CPU pool."
EDITS = [
    (
        "        num_behind = max(num_swapped - start * self.block_size, 0)\n",
        "        num_behind = num_swapped\n",
    ),
]
