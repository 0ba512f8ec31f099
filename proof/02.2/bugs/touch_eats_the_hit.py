STORY = "touch() takes the blocks out of the list that it is given. The scheduler then builds a table without its hits."
CONCEPT = "Lists belong to the caller: none that is given is changed, and none is kept."
EDITS = [
    (
        "        for block in blocks:\n            if block.ref_cnt == 0:\n",
        "        blocks = blocks if isinstance(blocks, list) else list(blocks)\n        while blocks:\n            block = blocks.pop(0)\n            if block.ref_cnt == 0:\n",
    )
]
