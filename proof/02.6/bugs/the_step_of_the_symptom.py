STORY = "The step in which the wrong content is found is given. The mistake was made seven steps before it."
CONCEPT = "The symptom is late and elsewhere: go back to the first record that cannot be."
EDITS = [
    (
        '"step": 6',
        '"step": 13',
    ),
]
