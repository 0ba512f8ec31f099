STORY = "A learner asks only whether anything is missing; if so, all of it is copied in, as one transfer."
CONCEPT = "What the prefix cache finds is not copied: only what lies behind it comes from the CPU pool."
EDITS = [
    (
        (
            "            behind = self.get_block_ids(request_id)[start : self._num_blocks(num_swapped)]\n"
            "            self._swapping_in[request_id] = self.swap_space.swap_in(request_id, behind, start)\n"
        ),
        (
            "            first = start if num_behind == 0 else 0\n"
            "            behind = self.get_block_ids(request_id)[first : self._num_blocks(num_swapped)]\n"
            "            self._swapping_in[request_id] = self.swap_space.swap_in(request_id, behind, first)\n"
        ),
    ),
]
