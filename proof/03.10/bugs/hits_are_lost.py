STORY = "A learner calls the usual way without the blocks that were found."
CONCEPT = "A request that was never swapped out is treated as usual, with its hits and further chunks."
EDITS = [
    (
        (
            "        if request_id in self._tables:  # it runs already\n"
            "            return super().allocate_slots(request, num_new_tokens, computed_blocks)\n"
        ),
        (
            "        if request_id in self._tables:  # it runs already\n"
            "            return super().allocate_slots(request, num_new_tokens, computed_blocks)\n"
            "        if not self.connector.get_num_new_matched_tokens(request, 0).num_tokens:\n"
            "            return super().allocate_slots(request, num_new_tokens)\n"
        ),
    ),
]
