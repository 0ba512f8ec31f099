STORY = "A new request is handed its table as the list of new blocks; a caller that empties the list empties the table."
CONCEPT = "Lists belong to the caller: the hits that are given and the blocks that are returned are no table."
EDITS = [
    (
        """            self._tables.setdefault(request.request_id, []).extend((*computed_blocks, *new_blocks))
""",
        """            table = [*self._tables.get(request.request_id, []), *computed_blocks, *new_blocks]
            self._tables[request.request_id] = table
            if len(table) == len(new_blocks):
                new_blocks = table
""",
    ),
]
