STORY = (
    "Only who was forked copies; the parent owns its blocks and writes into them, while its children still read them."
)
CONCEPT = "A request that writes into a shared block gets a block of its own; the other holders keep theirs."
EDITS = [
    (
        ("        child.block_hashes = list(parent.block_hashes)\n"),
        (
            "        child.block_hashes = list(parent.block_hashes)\n"
            '        self.__dict__.setdefault("_children", set()).add(child.request_id)\n'
        ),
    ),
    (
        (
            "        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt > 1]\n"
        ),
        (
            '        if request.request_id not in self.__dict__.get("_children", ()):\n'
            "            return []\n"
            "        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt > 1]\n"
        ),
    ),
]
