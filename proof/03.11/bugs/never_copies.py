STORY = "A shared block is written as if it were the writer's own. Whoever writes last is read by all."
CONCEPT = "A request that writes into a shared block gets a block of its own; the other holders keep theirs."
EDITS = [
    (
        (
            "        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt > 1]\n"
        ),
        ("        return []\n"),
    ),
]
