STORY = (
    "A learner forgets to leave out the CPU blocks of what was found, and the first ones come into the wrong places."
)
CONCEPT = "What the prefix cache finds is not copied: only what lies behind it comes from the CPU pool."
EDITS = [
    (
        "            self._swapping_in[request_id] = self.swap_space.swap_in(request_id, behind, start)\n",
        "            self._swapping_in[request_id] = self.swap_space.swap_in(request_id, behind)\n",
    ),
]
