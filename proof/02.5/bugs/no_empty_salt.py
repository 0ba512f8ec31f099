STORY = (
    "Two tenants with different salts are tested, and one with none. That an empty text is a salt, too, nobody "
    "thought of."
)
CONCEPT = "A hit that is false gives wrong answers: write down whose content a block has, and compare."
EDITS = [
    (
        'product([None, "", "s", "t"], repeat=2)',
        'product([None, "s", "t"], repeat=2)',
    ),
]
