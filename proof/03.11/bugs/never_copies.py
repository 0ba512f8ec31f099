STORY = "A shared block is written as if it were the writer's own. Whoever writes last is read by all."
CONCEPT = "Whoever writes into a shared block gets a block of its own; the others keep theirs."
EDITS = [
    (
        (
            "        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt > 1]\n"
        ),
        ("        return []\n"),
    ),
]
