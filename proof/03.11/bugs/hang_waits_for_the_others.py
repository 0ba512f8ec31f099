STORY = "It waits until nobody else holds the block. The others wait, too, for this step."
CONCEPT = "A request that writes into a shared block gets a block of its own; the other holders keep theirs."
EDITS = [
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
        ("            while self._shared_blocks(request, num_tokens):\n                pass\n"),
    ),
]
