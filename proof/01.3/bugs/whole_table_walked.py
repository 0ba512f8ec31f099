STORY = (
    "The loop goes over the whole row of the table and skips what is not visible after looking it up. Columns "
    "without a meaning are used as block ids."
)
CONCEPT = "What the query does not see is not read: NaN in the slots, ids of no block in the table."
EDITS = [
    (
        """    for block in range(begin // block_size, -(-end // block_size)):
""",
        """    for block in range(len(block_table)):
""",
    ),
    (
        """        values = value_cache[block_table[block], tokens].float()
""",
        """        values = value_cache[block_table[block], tokens].float()
        if tokens.start >= tokens.stop:
            continue
""",
    ),
]
