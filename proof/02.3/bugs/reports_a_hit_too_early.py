STORY = (
    "The hit is written into the request's statistics while it is only looked for. A request that waits and "
    "finds less in the end has reported more than it got."
)
CONCEPT = "To look changes nothing: a request that is not admitted after all has taken nothing."
EDITS = [
    (
        "        return hits, len(hits) * self.block_size",
        """        request.num_cached_tokens = len(hits) * self.block_size
        return hits, len(hits) * self.block_size""",
    ),
]
