STORY = "free() withdraws a hundred promises at most; a long prompt that is preempted leaves the others."
CONCEPT = "However many blocks were promised and not written, none of them is found."
EDITS = [
    (
        "            for block in table[request.num_computed_tokens // self.block_size :]:",
        "            start = request.num_computed_tokens // self.block_size\n            for block in table[start : start + 100]:",
    )
]
