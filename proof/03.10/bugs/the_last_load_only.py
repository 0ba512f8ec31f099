STORY = "The noted loads are replaced by the last one. Of two that come back in a step the first one's tokens are taken for a hit."
CONCEPT = (
    "After any steps, failed ones too, everybody reads its own tokens, and main memory has who waits and nobody else."
)
EDITS = [
    (
        "                self._loads[request_id] = Load(request, start, end)\n",
        "                self._loads = {request_id: Load(request, start, end)}\n",
    )
]
