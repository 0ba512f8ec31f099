STORY = "A learner copies full blocks only, as the prefix cache does. What the last block had begun is lost."
CONCEPT = "All that is computed goes out, the block it has just begun too; a block in which nothing is computed stays."
EDITS = [
    (
        "        return -(-num_tokens // self.block_size)\n",
        "        return num_tokens // self.block_size\n",
    ),
]
