STORY = (
    "block_ids() stops after a thousand blocks, as long as nobody needs more. The queue of a real engine has "
    "a hundred times as many."
)
CONCEPT = "All blocks are listed, and any number is moved at once, however many there are."
EDITS = [
    (
        "        while block is not None and block is not self._tail:",
        "        while block is not None and block is not self._tail and len(ids) < 1000:",
    ),
]
