STORY = "Padding fills a batch up, so the tests have it at the end. The rows behind it are never any."
CONCEPT = "A write has two sides: what it puts where it belongs, and all that it must leave alone."
EDITS = [
    (
        "    slots = [9, -1, 6, 2, -1, 10]",
        "    slots = [9, 6, 2, 10, -1, -1]",
    ),
]
