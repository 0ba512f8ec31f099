STORY = "A learner looks only at requests with pairs; who found everything on the device keeps its CPU blocks."
CONCEPT = "Of the two places the one counts that has more: the device may know more than the pool."
EDITS = [
    (
        (
            "            self._swapping_in[request_id] = self.swap_space.swap_in(request_id, behind, start)\n"
            "            self._hits[request_id] = start * self.block_size\n"
        ),
        (
            "            pairs = self.swap_space.swap_in(request_id, behind, start)\n"
            "            if pairs:\n"
            "                self._swapping_in[request_id] = pairs\n"
            "                self._hits[request_id] = start * self.block_size\n"
        ),
    ),
]
