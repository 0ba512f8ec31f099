STORY = (
    "The child gets a copy of the last block when it forks. Ten children of one prompt take ten blocks "
    "before any of them has a token of its own."
)
CONCEPT = "A fork takes no block: the child's table reads as its parent's."
EDITS = [
    (
        ("            self._tables[child.request_id] = list(table)\n"),
        (
            "            self._tables[child.request_id] = list(table)\n"
            "            if parent.num_computed_tokens % self.block_size and self.num_free_blocks:\n"
            "                (copy,) = self.block_pool.get_new_blocks(1)\n"
            "                self._copies.append((table[-1].block_id, copy.block_id))\n"
            "                self.block_pool.free_blocks([table[-1]])\n"
            "                self._tables[child.request_id][-1] = copy\n"
        ),
    ),
]
