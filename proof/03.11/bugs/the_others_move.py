STORY = (
    "The writer keeps the block, and the other holders are moved to a copy. Their tables change while "
    "they may be in a step that was decided already."
)
CONCEPT = "A request that writes into a shared block gets a block of its own; the other holders keep theirs."
EDITS = [
    (
        ("                table[i] = copy\n"),
        "",
    ),
    (
        ("                self.block_pool.free_blocks([table[i]])\n"),
        (
            "                old = table[i]\n"
            "                for other in self._tables.values():\n"
            "                    if other is not table and len(other) > i and other[i] is old:\n"
            "                        other[i] = copy\n"
            "                        copy.ref_cnt += 1\n"
            "                        old.ref_cnt -= 1\n"
            "                copy.ref_cnt -= 1\n"
        ),
    ),
]
