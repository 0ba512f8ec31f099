STORY = "A run must be over after so many steps, says the author, who has measured it on V1. A scheduler may be slow."
CONCEPT = "Late, slow, unfair, too large: none of that is a wrong token, and no reason to be red."
EDITS = [
    (
        """        for _ in range(300):
""",
        """        for _ in range(16):
""",
    ),
]
