STORY = (
    "A learner forgets to leave out the CPU blocks of what was found, and the first ones come into the wrong places."
)
CONCEPT = "What the prefix cache finds is not copied: only what lies behind it comes from the CPU pool."
EDITS = [
    (
        "            self.connector.load(request, block_ids, len(computed_blocks))\n",
        "            self.connector.load(request, block_ids, 0)\n",
    ),
]
