STORY = "Blocks of a hit that others hold are copied, too, to be safe. They are full: nobody will write into them."
CONCEPT = "A request that is admitted with a prefix hit gets the hit's blocks and pays for them as usual."
EDITS = [
    (
        ("        return super().allocate_slots(request, num_new_tokens, computed_blocks)\n"),
        (
            "        given = super().allocate_slots(request, num_new_tokens, computed_blocks)\n"
            "        if given is not None:\n"
            "            table = self._tables.get(request.request_id, [])\n"
            "            for i, block in enumerate(computed_blocks):\n"
            "                if block.ref_cnt > 1 and self.num_free_blocks:\n"
            "                    (table[i],) = self.block_pool.get_new_blocks(1)\n"
            "                    self._copies.append((block.block_id, table[i].block_id))\n"
            "                    self.block_pool.free_blocks([block])\n"
            "        return given\n"
        ),
    ),
]
