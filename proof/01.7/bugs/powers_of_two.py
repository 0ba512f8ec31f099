STORY = (
    "Real engines have blocks of 16, so the tests have blocks of 1, 2, 4, 8 and 16. Shifting is as good as "
    "dividing there."
)
CONCEPT = "A slot follows from table, position and block size alone, however odd or large they are."
EDITS = [
    (
        "for block_size in (1, 3, 4, 7, 16):",
        "for block_size in (1, 2, 4, 8, 16):",
    ),
    (
        """    tables, lengths = [[6, 1, 9], [2, 8, 4], [7, 0, 3]], [0, 0, 0]
""",
        """    tables, lengths = [[6, 1, 9, 10], [2, 8, 4], [7, 0, 3]], [0, 0, 0]
""",
    ),
    (
        "key_cache, value_cache = torch.full((11, 3, 2, 8), torch.nan), torch.full((11, 3, 2, 8), torch.nan)",
        "key_cache, value_cache = torch.full((11, 2, 2, 8), torch.nan), torch.full((11, 2, 2, 8), torch.nan)",
    ),
    (
        "[(4, 0, 2), (0, 3, 1), (1, 1, 1), (2, 0, 5)]",
        "[(4, 0, 2), (0, 3, 1), (1, 1, 1), (2, 0, 2)]",
    ),
    (
        "pack(requests, 3, CPU)",
        "pack(requests, 2, CPU)",
    ),
]
