STORY = "A learner takes back the copies out of somebody who comes in: it is not on its way out any more."
CONCEPT = "Copies out come before those in: a block that is given up may be filled in the same step."
EDITS = [
    (
        "            self._swapping_in[request_id] = self.swap_space.swap_in(request_id, behind, start)\n",
        (
            "            self._swapping_in[request_id] = self.swap_space.swap_in(request_id, behind, start)\n"
            "            self._swapping_out.pop(request_id, None)\n"
        ),
    ),
]
