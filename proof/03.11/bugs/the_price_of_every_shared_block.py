STORY = "The price counts all shared blocks of the table. A long prompt looks as if it could never go on."
CONCEPT = "The price counts a block for each copy, and asking for it changes nothing."
EDITS = [
    (
        ("        num_copies = len(self._shared_blocks(request, num_tokens))\n"),
        (
            "        table = self._tables.get(request.request_id, ())\n"
            "        num_copies = sum(block.ref_cnt > 1 for block in table)\n"
        ),
    ),
]
