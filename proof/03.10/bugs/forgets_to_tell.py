STORY = "A learner reserves the CPU blocks and forgets to tell the pairs. What comes back was never there."
CONCEPT = "All that is computed goes out, the block it has just begun too; a block in which nothing is computed stays."
EDITS = [
    (
        "            self._saving[request_id] = pairs\n",
        "",
    ),
]
