STORY = (
    "A learner crosses out the copies of one that goes out and comes back in the same step. Its blocks are "
    "others by now."
)
CONCEPT = "Copies out come before those in: a block that is given up may be filled in the same step."
EDITS = [
    (
        "            self._swapping_in[request_id] = self.swap_space.swap_in(request_id, behind, start)\n",
        (
            "            self._swapping_in[request_id] = self.swap_space.swap_in(request_id, behind, start)\n"
            "            if self._swapping_out.pop(request_id, None):\n"
            "                self._swapping_in.pop(request_id)\n"
        ),
    ),
]
