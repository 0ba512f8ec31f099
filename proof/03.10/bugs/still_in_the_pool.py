STORY = (
    "A learner frees the CPU blocks of who is back and leaves its number of tokens: the second time it seems to"
    " be there."
)
CONCEPT = "Who is back runs as ever: it grows, and may go out again with all that it has by then."
EDITS = [
    (
        (
            "        for request_id in list(self._hits):\n"
            "            self._forget(request_id)\n"
            "        self._swapping_out.clear()\n"
            "        self._swapping_in.clear()\n"
            "        self._hits.clear()\n"
        ),
        (
            "        for request_id in list(self._hits):\n"
            "            self.swap_space.free(request_id)\n"
            "        self._swapping_out.clear()\n"
            "        self._swapping_in.clear()\n"
            "        self._hits.clear()\n"
        ),
    ),
]
