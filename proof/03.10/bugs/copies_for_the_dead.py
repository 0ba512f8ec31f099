STORY = "A learner frees the CPU blocks of who was aborted and leaves its pairs: two copies go to one CPU block."
CONCEPT = "A CPU block is the target of one copy: that of somebody who has ended is not made any more."
EDITS = [
    (
        (
            "        super().free(request)\n"
            "        if request.is_finished:\n"
            "            self._forget(request.request_id)\n"
        ),
        (
            "        super().free(request)\n"
            "        if request.is_finished:\n"
            "            self._swapped.pop(request.request_id, None)\n"
            "            self.swap_space.free(request.request_id)\n"
        ),
    ),
]
