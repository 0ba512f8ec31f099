STORY = "A block that was copied once is never written again. The last holder copies it, too, and throws it away."
CONCEPT = "The last holder of a block writes in place, however the others went."
EDITS = [
    (
        ("                self._copies.append((table[i].block_id, copy.block_id))\n"),
        (
            "                self._copies.append((table[i].block_id, copy.block_id))\n"
            '                self.__dict__.setdefault("_sources", set()).add(table[i].block_id)\n'
        ),
    ),
    (
        (
            "        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt > 1]\n"
        ),
        (
            '        sources = self.__dict__.get("_sources", ())\n'
            "        blocks = range(request.num_computed_tokens // self.block_size, end)\n"
            "        return [i for i in blocks if table[i].ref_cnt > 1 or table[i].block_id in sources]\n"
        ),
    ),
]
