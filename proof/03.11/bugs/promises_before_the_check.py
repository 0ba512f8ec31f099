STORY = (
    "The copy is promised before anybody looks whether there is room. The runner copies into a block that "
    "belongs to somebody else."
)
CONCEPT = "All or nothing: one block too few gives None, and nothing shows that a request asked."
EDITS = [
    (
        (
            "            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:\n"
            "                return None\n"
        ),
        (
            "            table, free = self._tables[request.request_id], self.free_block_ids()\n"
            "            self._copies += [(table[i].block_id, block) for i, block in zip(shared, [*free, 0, 0, 0])]\n"
            "            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:\n"
            "                return None\n"
        ),
    ),
    (
        ("                self._copies.append((table[i].block_id, copy.block_id))\n"),
        "",
    ),
]
