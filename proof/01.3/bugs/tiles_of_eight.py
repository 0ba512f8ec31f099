STORY = (
    "A loop over tiles of 8 keys was cut down to one tile, enough for the blocks of the tests. The second half "
    "of larger blocks is never read."
)
CONCEPT = "The last block may be full or not: positions up to end - 1 count, and end does not."
EDITS = [
    (
        """        keys = key_cache[block_table[block], tokens].float()
""",
        """        tokens = slice(tokens.start, min(tokens.stop, 8))
        keys = key_cache[block_table[block], tokens].float()
""",
    ),
]
