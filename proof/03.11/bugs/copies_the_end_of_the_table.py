STORY = (
    "The price is right, and the copy is made by another rule: a table without room grows from its last "
    "block, so that one is copied first, though it is full."
)
CONCEPT = "A full block is no longer written: it stays shared, and is never copied."
EDITS = [
    (
        ("        shared = self._shared_blocks(request, num_tokens)\n"),
        (
            "        shared = self._shared_blocks(request, num_tokens)\n"
            "        table = self._tables.get(request.request_id, [])\n"
            "        if table and request.num_computed_tokens == len(table) * self.block_size and table[-1].ref_cnt > 1:\n"
            "            shared = [len(table) - 1]\n"
        ),
    ),
]
