STORY = "The result is rounded to the dtype of the caches on its way to that of the query."
CONCEPT = "A query and caches of two dtypes: neither is rounded to the other's."
EDITS = [
    (
        """view(-1, head_dim).to(query.dtype)""",
        """view(-1, head_dim).to(value_cache.dtype).to(query.dtype)""",
    ),
]
