STORY = "The pair is told the wrong way round: the runner copies the new block, which is empty, over the shared one."
CONCEPT = "A request that writes into a shared block gets a block of its own; the other holders keep theirs."
EDITS = [
    (
        ("                self._copies.append((table[i].block_id, copy.block_id))\n"),
        ("                self._copies.append((copy.block_id, table[i].block_id))\n"),
    ),
]
