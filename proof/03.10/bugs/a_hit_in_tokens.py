STORY = "A learner asks with the number of blocks that were found for that of tokens, and gives too many slots."
CONCEPT = "What the prefix cache finds is not copied: only what lies behind it comes from the CPU pool."
EDITS = [
    (
        "        end = start + self._num_loadable_tokens(request, start)\n",
        "        end = start + self._num_loadable_tokens(request, len(computed_blocks))\n",
    ),
]
