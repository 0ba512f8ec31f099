STORY = (
    "Whoever has forked, or was forked from, copies the block it writes next, also when nobody else holds it any more."
)
CONCEPT = "The last holder of a block writes in place, however the others went."
EDITS = [
    (
        ("        child.block_hashes = list(parent.block_hashes)\n"),
        (
            "        child.block_hashes = list(parent.block_hashes)\n"
            '        self.__dict__.setdefault("_forked", set()).update((parent.request_id, child.request_id))\n'
        ),
    ),
    (
        (
            "        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt > 1]\n"
        ),
        (
            '        is_forked = request.request_id in self.__dict__.get("_forked", ())\n'
            "        return [i for i in range(request.num_computed_tokens // self.block_size, end) if (table[i].ref_cnt > 1 or is_forked and request.num_computed_tokens % self.block_size)]\n"
        ),
    ),
]
