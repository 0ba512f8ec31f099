STORY = "The parent's table is handed over to the child. The parent has lost its past."
CONCEPT = "A fork takes no block: the child's table reads as its parent's."
EDITS = [
    (
        ("        table = self._tables.get(parent.request_id, [])\n"),
        ("        table = self._tables.pop(parent.request_id, [])\n"),
    ),
]
