STORY = "The step is given in words, as 'step 8'."
CONCEPT = "The first wrong letter is not the first mistake: go back to the number that cannot be."
EDITS = [
    (
        '"step": 8',
        '"step": "step 8"',
    ),
]
