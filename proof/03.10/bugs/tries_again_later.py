STORY = (
    "A learner leaves the copies out for the next step: what could not be copied now is copied then, from "
    "blocks that others have."
)
CONCEPT = "What a failed step was to copy out may never have arrived: it is computed again."
EDITS = [
    (
        (
            "        for request_id in list(self._swapping_out):\n"
            "            self._forget(request_id)\n"
            "        self._swapping_in.clear()\n"
            "        self._hits.clear()\n"
        ),
        ("        self._swapping_in.clear()\n        self._hits.clear()\n"),
    ),
]
