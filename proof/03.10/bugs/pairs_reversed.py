STORY = "A learner tells (CPU block, block) in both directions."
CONCEPT = "All that is computed goes out, the block it has just begun too; a block in which nothing is computed stays."
EDITS = [
    (
        "            self._saving[request_id] = pairs\n",
        "            self._saving[request_id] = [(cpu, block) for block, cpu in pairs]\n",
    ),
]
