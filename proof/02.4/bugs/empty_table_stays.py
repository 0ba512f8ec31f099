STORY = (
    "free() leaves an empty table behind. It looks harmless, but a manager with tables is busy: the cache can "
    "never be reset."
)
CONCEPT = "All is given back, the head to be taken last, and the request holds no table any more."
EDITS = [
    (
        "self._tables.pop(request.request_id, [])",
        """self._tables.pop(request.request_id, [])
        self._tables[request.request_id] = []""",
    ),
]
