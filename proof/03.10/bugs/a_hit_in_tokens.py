STORY = "A learner asks with the number of blocks that were found for that of tokens, and gives too many slots."
CONCEPT = "A hit brings its own blocks: room is needed for what lies behind it, and for what is computed."
EDITS = [
    (
        "        end = start + self._num_loadable_tokens(request, start)\n",
        "        end = start + self._num_loadable_tokens(request, len(computed_blocks))\n",
    ),
]
