STORY = "The price counts a copy for each other holder."
CONCEPT = "The price counts a block for each copy, and asking for it changes nothing."
EDITS = [
    (
        ("        num_copies = len(self._shared_blocks(request, num_tokens))\n"),
        (
            "        table = self._tables.get(request.request_id, ())\n"
            "        num_copies = sum(table[i].ref_cnt - 1 for i in self._shared_blocks(request, num_tokens))\n"
        ),
    ),
]
