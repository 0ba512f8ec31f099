STORY = "The result gets the dtype of the values. A query in float32 gets an answer in 16 bits."
CONCEPT = "The result has the dtype of the query, whatever the caches store."
EDITS = [
    (
        ".to(query.dtype)",
        ".to(value_cache.dtype)",
    ),
]
