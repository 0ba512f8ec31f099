STORY = "Only the last block of the table is looked at, as if the tokens always went there."
CONCEPT = "Several tokens may go into several shared blocks: each that is written is replaced, the others are not."
EDITS = [
    (
        (
            "        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt > 1]\n"
        ),
        (
            "        return [i for i in [len(table) - 1] if i >= request.num_computed_tokens // self.block_size and table[i].ref_cnt > 1]\n"
        ),
    ),
]
