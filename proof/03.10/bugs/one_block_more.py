STORY = "A learner rounds up by adding one, which is one too many where the last block is full."
CONCEPT = "All that is computed goes out, the block it has just begun too; a block in which nothing is computed stays."
EDITS = [
    (
        "        return -(-num_tokens // self.block_size)\n",
        "        return num_tokens // self.block_size + 1\n",
    ),
]
