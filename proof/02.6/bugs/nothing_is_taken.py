STORY = "What was freed is looked up again, and nobody has taken it in between. It is there, and it is right."
CONCEPT = "What was overwritten must not be found: take a block, and ask for what was in it."
EDITS = [
    (
        '    big = make(lab, "A" * 31, "big")\n    books.come(big)\n    books.leave(big)\n',
        "",
    ),
]
