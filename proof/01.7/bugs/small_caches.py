STORY = "The ids are as small as in every example. No slot is larger than a few hundred, and any integer holds those."
CONCEPT = "A slot follows from table, position and block size alone, however odd or large they are."
EDITS = [
    (
        "[5, 200_000_000]",
        "[5, 2]",
    ),
    (
        "equals=[95, 3_200_000_000]",
        "equals=[95, 32]",
    ),
]
