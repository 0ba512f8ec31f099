STORY = "The names were tried one after the other, and there is no reason to give."
CONCEPT = "The damage is late and elsewhere: go back to the first record that cannot be."
EDITS = [
    (
        '"why": "q comes back in two pieces, and speaks after the first since that one is longer than its prompt."',
        '"why": " "',
    ),
]
