STORY = "The name is nearly right. The engine has no function of this one."
CONCEPT = "The symptom is late and elsewhere: go back to the first record that cannot be."
EDITS = [
    (
        'BlockPool.get_new_blocks"',
        'BlockPool.new_blocks"',
    ),
]
