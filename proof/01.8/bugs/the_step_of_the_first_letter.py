STORY = "The step of the first wrong letter is given. The token was put into the wrong slot five steps before."
CONCEPT = "The first wrong letter is not the first mistake: go back to the number that cannot be."
EDITS = [
    (
        '"step": 1',
        '"step": 6',
    ),
]
