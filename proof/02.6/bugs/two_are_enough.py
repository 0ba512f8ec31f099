STORY = "Two requests share, since that is what sharing is. A count that stops at two is right for them."
CONCEPT = "A count of holders is right only if all of them are counted: let three share, and leave."
EDITS = [
    (
        "for number in (2, 3, 4):",
        "for number in (2,):",
    ),
]
