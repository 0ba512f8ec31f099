STORY = (
    "Only the block in which the computed tokens end is looked at. The blocks behind it are shared as "
    "well, when slots were given ahead."
)
CONCEPT = "Several tokens may go into several shared blocks: each that is written is replaced, the others are not."
EDITS = [
    (
        (
            "        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt > 1]\n"
        ),
        (
            "        start = request.num_computed_tokens // self.block_size\n"
            "        return [i for i in range(start, min(start + 1, end)) if table[i].ref_cnt > 1]\n"
        ),
    ),
]
