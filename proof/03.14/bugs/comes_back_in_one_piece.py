STORY = (
    "The budget is large, so a victim comes back in one piece, and there is no first half after which it could speak."
)
CONCEPT = "A victim comes back in pieces, and says what it would have said: force it, and compare."
EDITS = [
    (
        "for budget in (3, 4, 5):",
        "for budget in (64,):",
    ),
]
