STORY = (
    "A table is freed by descending ids. That is tail first as long as ids ascend in a table, which a used "
    "queue does not give."
)
CONCEPT = "Tail before head goes by the places in the table, and not by ids."
EDITS = [
    (
        "reversed(table)",
        "sorted(table, key=lambda block: -block.block_id)",
    ),
]
