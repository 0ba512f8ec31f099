STORY = "The pair is noted after the table was changed: the new block is to be copied onto itself."
CONCEPT = "A request that writes into a shared block gets a block of its own; the other holders keep theirs."
EDITS = [
    (
        (
            "                self._copies.append((table[i].block_id, copy.block_id))\n"
            "                self.block_pool.free_blocks([table[i]])\n"
            "                table[i] = copy\n"
        ),
        (
            "                old, table[i] = table[i], copy\n"
            "                self.block_pool.free_blocks([old])\n"
            "                self._copies.append((table[i].block_id, copy.block_id))\n"
        ),
    ),
]
