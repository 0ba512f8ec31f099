STORY = "The names were guessed, and there is no reason to give."
CONCEPT = "The first wrong letter is not the first mistake: go back to the number that cannot be."
EDITS = [
    (
        '"why": "The second block brings a larger maximum, and what was summed before is not scaled down to it."',
        '"why": None',
    ),
]
