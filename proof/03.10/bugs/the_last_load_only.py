STORY = "The noted loads are replaced by the last one. Of two that come back in a step the first one's tokens are taken for a hit."
CONCEPT = "Of several that were coming in when a step failed none may be found: each has names to withdraw."
EDITS = [
    (
        "                self._loads[request_id] = Load(request, start, end)\n",
        "                self._loads = {request_id: Load(request, start, end)}\n",
    )
]
