STORY = "The step that raises an error is given. The count went wrong long before."
CONCEPT = "The symptom is late and elsewhere: go back to the first record that cannot be."
EDITS = [
    (
        '"step": 14',
        '"step": 23',
    ),
]
