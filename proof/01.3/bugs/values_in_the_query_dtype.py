STORY = "The values are brought to the dtype of the query, as the result will be."
CONCEPT = "A query and caches of two dtypes: neither is rounded to the other's."
EDITS = [
    (
        """        values = value_cache[block_table[block], tokens].float()
""",
        """        values = value_cache[block_table[block], tokens].to(query.dtype).float()
""",
    ),
]
