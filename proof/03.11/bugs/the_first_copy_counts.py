STORY = (
    "A step copies a block once; who comes later in the step writes in place. With three holders the last "
    "two write into one slot."
)
CONCEPT = "In one step each request writes its own token, and reads its own past afterwards."
EDITS = [
    (
        (
            "        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt > 1]\n"
        ),
        (
            "        copied = [old for old, _ in self._copies]\n"
            "        blocks = range(request.num_computed_tokens // self.block_size, end)\n"
            "        return [i for i in blocks if table[i].ref_cnt > 1 and table[i].block_id not in copied]\n"
        ),
    ),
]
