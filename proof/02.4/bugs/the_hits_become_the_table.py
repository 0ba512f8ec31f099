STORY = (
    "The list of hits that is given is made the table. It grows for the caller, and what the caller does with"
    " it happens to the table."
)
CONCEPT = "Lists belong to the caller: the hits that are given and the blocks that are returned are no table."
EDITS = [
    (
        """            self._tables.setdefault(request.request_id, []).extend((*computed_blocks, *new_blocks))
""",
        """            table = self._tables.get(request.request_id)
            if table is None:
                table = self._tables[request.request_id] = computed_blocks if isinstance(computed_blocks, list) else []
            table.extend(new_blocks if table is computed_blocks else (*computed_blocks, *new_blocks))
""",
    ),
]
