STORY = (
    "The usual method comes first and the copies after it. The prefix cache is told of the shared block, "
    "into which these tokens are never written."
)
CONCEPT = "The prefix cache finds each future under its own tokens, in the block where it was written."
EDITS = [
    (
        ("        return super().allocate_slots(request, num_new_tokens, computed_blocks)\n"),
        "",
    ),
    (
        (
            "            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:\n"
            "                return None\n"
            "            table = self._tables[request.request_id]\n"
            "            for i, copy in zip(shared, self.block_pool.get_new_blocks(len(shared)), strict=True):\n"
            "                self._copies.append((table[i].block_id, copy.block_id))\n"
            "                self.block_pool.free_blocks([table[i]])\n"
            "                table[i] = copy\n"
        ),
        (
            "            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:\n"
            "                return None\n"
            "            given = super().allocate_slots(request, num_new_tokens, computed_blocks)\n"
            "            table = self._tables[request.request_id]\n"
            "            for i, copy in zip(shared, self.block_pool.get_new_blocks(len(shared)), strict=True):\n"
            "                self._copies.append((table[i].block_id, copy.block_id))\n"
            "                self.block_pool.free_blocks([table[i]])\n"
            "                table[i] = copy\n"
            "            return given\n"
            "        return super().allocate_slots(request, num_new_tokens, computed_blocks)\n"
        ),
    ),
]
