STORY = "Copies are kept by their source. Of two that are made of one block in one step the first is forgotten."
CONCEPT = "In one step each request writes its own token, and reads its own past afterwards."
EDITS = [
    (
        ("                self._copies.append((table[i].block_id, copy.block_id))\n"),
        (
            "                self._copies = [pair for pair in self._copies if pair[0] != table[i].block_id]\n"
            "                self._copies.append((table[i].block_id, copy.block_id))\n"
        ),
    ),
]
