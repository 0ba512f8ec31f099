STORY = "The loop ends when a step computes nothing, as if everything were done. A scheduler that stands still passes."
CONCEPT = "Where nothing happens no other law is broken, and no request ever ends: ask for progress."
EDITS = [
    (
        """        look_at_the_progress(self, output, alive)
""",
        "",
    ),
    (
        """        look_at_the_end(self)
""",
        "",
    ),
]
