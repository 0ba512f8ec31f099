STORY = "The query is cast to what the cache stores, so that both can be multiplied."
CONCEPT = "The result has the dtype of the query, whatever the caches store."
EDITS = [
    (
        "grouped = query.float().view",
        "grouped = query.to(key_cache.dtype).float().view",
    ),
]
