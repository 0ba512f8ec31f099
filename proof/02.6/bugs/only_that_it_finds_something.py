STORY = "A hit is welcomed, and what is in the block is not compared."
CONCEPT = "What was overwritten must not be found: take a block, and ask for what was in it."
EDITS = [
    (
        "self.contents[block.block_id] == self.text(request, place)",
        "block.block_id in self.contents",
    ),
]
