STORY = (
    "popleft_n cuts the chain at its two ends and leaves the links inside it, since nobody walks there any "
    "more. A block from its middle still looks free, and remove() lets it through."
)
CONCEPT = "A block that is not in the queue cannot be removed: ValueError, and nothing changes."
EDITS = [
    (
        """            block.prev_free_block = block.next_free_block = None
            block = following""",
        "            block = following",
    ),
]
