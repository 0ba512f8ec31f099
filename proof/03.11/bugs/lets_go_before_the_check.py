STORY = (
    "The shared block is let go before the check. Refused, the request still has it in its table, and the "
    "last other holder writes into it in place."
)
CONCEPT = "All or nothing: one block too few gives None, and nothing shows that a request asked."
EDITS = [
    (
        (
            "            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:\n"
            "                return None\n"
        ),
        (
            "            needed = self.num_blocks_needed(request, num_tokens)\n"
            "            self.block_pool.free_blocks([self._tables[request.request_id][i] for i in shared])\n"
            "            if needed > self.num_free_blocks:\n"
            "                return None\n"
        ),
    ),
    (
        ("                self.block_pool.free_blocks([table[i]])\n"),
        "",
    ),
]
