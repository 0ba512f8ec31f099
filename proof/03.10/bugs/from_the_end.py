STORY = "A learner hands the swap space the blocks in reverse order, so that each holds another's letters."
CONCEPT = "It comes back to where it was: the tokens in the CPU pool need no computing."
EDITS = [
    (
        "            self._swapping_in[request_id] = self.swap_space.swap_in(request_id, behind, start)\n",
        "            self._swapping_in[request_id] = self.swap_space.swap_in(request_id, behind[::-1], start)\n",
    ),
]
