STORY = "A copy into a block that nobody holds is kept for later. It is told when the block is somebody's again."
CONCEPT = "A promise ends with the step: a request that left before the copies were made has none in a later step."
EDITS = [
    (
        "        copies, self._copies = self._copies, []\n        return copies\n",
        "        copies, held = self._copies, self.block_pool.blocks\n        self._copies = [copy for copy in copies if not held[copy[1]].ref_cnt]\n        return [copy for copy in copies if held[copy[1]].ref_cnt]\n",
    ),
]
