STORY = "A learner tries two and three holders, and asks for these numbers. Four write into one block."
CONCEPT = "In one step each request writes its own token, and reads its own past afterwards."
EDITS = [
    (
        "        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt > 1]\n",
        "        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt in (2, 3)]\n",
    ),
]
