STORY = (
    "A copy whose old block is free is not told: nobody needs that block. But its content is what the copy is to have."
)
CONCEPT = "A copy is made from a block that is free by then, too: no request has written into it yet."
EDITS = [
    (
        "        copies, self._copies = self._copies, []\n        return copies\n",
        "        copies, self._copies = self._copies, []\n        return [pair for pair in copies if self.block_pool.blocks[pair[0]].ref_cnt]\n",
    )
]
