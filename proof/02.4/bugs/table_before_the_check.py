STORY = (
    "The table is made at the beginning, since it will be needed. A request that was refused now holds an "
    "empty one, and the engine never believes that it is idle."
)
CONCEPT = "A refusal leaves no trace: no order, no count, no name, no table, no counter."
EDITS = [
    (
        """        new_blocks: list[KVCacheBlock] = []
""",
        """        new_blocks: list[KVCacheBlock] = []
        self._tables.setdefault(request.request_id, [])
""",
    ),
]
