STORY = (
    "The writer gets a new block, and nobody is told that the old one is to be copied. The past of its "
    "last block is whatever lay there before."
)
CONCEPT = "A request that writes into a shared block gets a block of its own; the other holders keep theirs."
EDITS = [
    (
        ("                self._copies.append((table[i].block_id, copy.block_id))\n"),
        "",
    ),
]
