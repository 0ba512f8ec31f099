STORY = "The name was guessed, and there is no reason to give."
CONCEPT = "The symptom is late and elsewhere: go back to the first record that cannot be."
EDITS = [
    (
        '"why": "The third holder is not counted, so the blocks are free when the second one leaves; r still reads them."',
        '"why": ""',
    ),
]
