STORY = (
    "Blocks are put before those that were found already. The table begins with the end of the prefix, and "
    "every token attends to the wrong place."
)
CONCEPT = "A hit is as long as the common prefix, in whole blocks, and in the order of the prefix."
EDITS = [
    ("hits.append(block)", "hits.insert(0, block)"),
]
