STORY = "To ask for the price leaves an empty table behind, so the cache can never be reset."
CONCEPT = "To ask for the price changes nothing: a request that was only asked about has no table."
EDITS = [
    (
        """        table = self._tables.get(request.request_id, ())
""",
        """        table = self._tables.setdefault(request.request_id, [])
""",
    ),
]
