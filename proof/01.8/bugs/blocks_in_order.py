STORY = "The tables read 1, 2, 3, and the next block of memory is the next block of the table."
CONCEPT = "A slot shows its faults behind the first block, and in company: go there with every test."
EDITS = [
    (
        "[7, 2, 9]",
        "[1, 2, 3]",
    ),
    (
        "[4, 8, 1, 6]",
        "[4, 5, 6, 7]",
    ),
    (
        "[5, 0, 3]",
        "[8, 9, 10]",
    ),
]
