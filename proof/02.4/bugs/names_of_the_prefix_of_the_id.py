STORY = "Tables are looked up by the id up to the first dash, so r and r-1 share one price."
CONCEPT = "After any steps the tables, the prices and what is found are those that the calls make."
EDITS = [
    (
        """        table = self._tables.get(request.request_id, ())
""",
        """        table = self._tables.get(request.request_id.partition("-")[0], ())
""",
    ),
]
