STORY = "Parent and child get the same list. A block that is added for one is in the table of both."
CONCEPT = "Two tables: a block that one of them gets later is not in the other."
EDITS = [
    (
        ("            self._tables[child.request_id] = list(table)\n"),
        ("            self._tables[child.request_id] = table\n"),
    ),
]
