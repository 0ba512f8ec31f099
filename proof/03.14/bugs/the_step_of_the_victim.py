STORY = "The step in which the request gives way is given. That step is right; coming back is wrong."
CONCEPT = "The damage is late and elsewhere: go back to the first record that cannot be."
EDITS = [
    (
        '"step": 8',
        '"step": 5',
    ),
]
