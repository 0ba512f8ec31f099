STORY = (
    "What is found is compared with great care. That something has to be found is said nowhere, and an engine "
    "without a cache would pass."
)
CONCEPT = "A hit that is too short only costs time, so it goes unnoticed unless a test asks for it."
EDITS = [
    (
        """            assert notes(request, end)[num_hit:] not in self.memory, "I6: the next block is there, too"
""",
        """            assert num_hit >= 0, "I6: the next block is there, too"
""",
    ),
    (
        '(f"tokens found when {num_taken} blocks are taken", found, equals=expected)',
        '.true("an answer comes", found is not None)',
    ),
]
