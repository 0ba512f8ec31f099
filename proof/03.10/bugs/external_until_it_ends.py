STORY = "What was loaded stays noted for requests that were aborted in the step: only those that are still there are taken out."
CONCEPT = "A load is a request's, not a name's: one that ends during its load leaves nothing to the next of its name."
EDITS = [
    (
        "        self._loads.clear()\n",
        "        for request_id in [name for name in self._loads if name in self._tables or result is None]:\n            del self._loads[request_id]\n",
    )
]
