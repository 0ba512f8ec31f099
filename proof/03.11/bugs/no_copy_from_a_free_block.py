STORY = (
    "A copy whose old block is free is not told: nobody needs that block. But its content is what the copy is to have."
)
CONCEPT = "After any forks, writes and frees everybody reads its own past, at the price that was asked."
EDITS = [
    (
        "        copies, self._copies = self._copies, []\n        return copies\n",
        "        copies, self._copies = self._copies, []\n        return [pair for pair in copies if self.block_pool.blocks[pair[0]].ref_cnt]\n",
    )
]
