STORY = "A learner treats a failed step like any other: who came back is taken for back."
CONCEPT = "What a failed step was to copy in is in the pool as before, and comes in once more."
EDITS = [
    (
        (
            "        for request_id in list(self._swapping_out):\n"
            "            self._forget(request_id)\n"
            "        self._swapping_in.clear()\n"
            "        self._hits.clear()\n"
        ),
        "        self.confirm_copies()\n",
    ),
]
