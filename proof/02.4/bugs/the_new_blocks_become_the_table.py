STORY = "The list that is returned is made the table of a new request, and goes on growing."
CONCEPT = "Lists belong to the caller: the hits that are given and the blocks that are returned are no table."
EDITS = [
    (
        """            self._tables.setdefault(request.request_id, []).extend((*computed_blocks, *new_blocks))
""",
        """            if computed_blocks or request.request_id in self._tables:
                self._tables.setdefault(request.request_id, []).extend((*computed_blocks, *new_blocks))
            else:
                self._tables[request.request_id] = new_blocks
""",
    ),
]
