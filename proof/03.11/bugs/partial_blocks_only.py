STORY = (
    "No copy is made when the counter stands at a block's edge, since the block before it is full. The "
    "one behind it may be shared, too, and is about to be written."
)
CONCEPT = "Several tokens may go into several shared blocks: each that is written is replaced, the others are not."
EDITS = [
    (
        (
            "        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt > 1]\n"
        ),
        (
            "        if request.num_computed_tokens % self.block_size == 0:\n"
            "            return []\n"
            "        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt > 1]\n"
        ),
    ),
]
