STORY = "A learner counts one new block for a request that runs: it grows by a token a step. A chunk may take several."
CONCEPT = "The price counts a block for each copy, and asking for it changes nothing."
EDITS = [
    (
        "        return super().num_blocks_needed(request, num_tokens, computed_blocks) + num_copies\n",
        "        num_new = super().num_blocks_needed(request, num_tokens, computed_blocks)\n"
        "        return (min(num_new, 1) if request.request_id in self._tables else num_new) + num_copies\n",
    )
]
