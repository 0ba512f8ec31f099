STORY = "The step is that in which a newcomer is admitted first. The line was wrong before."
CONCEPT = "The damage is late and elsewhere: go back to the first record that cannot be."
EDITS = [
    (
        '"step": 3',
        '"step": 4',
    ),
]
