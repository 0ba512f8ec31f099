STORY = "One name list is withdrawn after a failed step: that of the first request that was coming in."
CONCEPT = "Of several that were coming in when a step failed none may be found: each has names to withdraw."
EDITS = [
    (
        "            for request, start, end in self._loads.values():\n",
        "            for request, start, end in list(self._loads.values())[:1]:\n",
    ),
]
