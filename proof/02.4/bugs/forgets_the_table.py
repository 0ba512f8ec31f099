STORY = (
    "The price of a running request is counted as if it had nothing. A long one has to find room for all its "
    "blocks again with every token."
)
CONCEPT = "What the table has is paid already, and the price is never below nothing."
EDITS = [
    (" - len(table) - ", " - "),
]
