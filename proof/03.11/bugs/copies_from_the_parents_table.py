STORY = (
    "The source of a copy is looked up in the parent's table. If the parent has written first, it has "
    "moved on to another block."
)
CONCEPT = "In one step each request writes its own token, and reads its own past afterwards."
EDITS = [
    (
        ("        child.block_hashes = list(parent.block_hashes)\n"),
        (
            "        child.block_hashes = list(parent.block_hashes)\n"
            '        self.__dict__.setdefault("_parents", {})[child.request_id] = parent.request_id\n'
        ),
    ),
    (
        ("                self._copies.append((table[i].block_id, copy.block_id))\n"),
        (
            '                parent_id = self.__dict__.get("_parents", {}).get(request.request_id, request.request_id)\n'
            "                source = self._tables.get(parent_id, table)[i]\n"
            "                self._copies.append((source.block_id, copy.block_id))\n"
        ),
    ),
]
