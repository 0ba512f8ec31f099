STORY = "The last copy is kept instead of all. A step in which two requests part copies for one of them."
CONCEPT = "A copy is told once, for the coming step: a list that was handed out does not change."
EDITS = [
    (
        "self._copies.append((table[i].block_id, copy.block_id))",
        "self._copies = [(table[i].block_id, copy.block_id)]",
    ),
]
