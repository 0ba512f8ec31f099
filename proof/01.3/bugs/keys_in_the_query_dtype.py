STORY = "The keys are brought to the dtype of the query before they meet it."
CONCEPT = "A query and caches of two dtypes: neither is rounded to the other's."
EDITS = [
    (
        """        keys = key_cache[block_table[block], tokens].float()
""",
        """        keys = key_cache[block_table[block], tokens].to(query.dtype).float()
""",
    ),
]
