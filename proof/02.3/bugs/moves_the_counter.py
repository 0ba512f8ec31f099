STORY = (
    "The lookup sets the request's counter, since it has to be set anyway. If the admission fails, the request "
    "skips its beginning the next time."
)
CONCEPT = "To look changes nothing: a request that is not admitted after all has taken nothing."
EDITS = [
    (
        "        return hits, len(hits) * self.block_size",
        """        request.num_computed_tokens = len(hits) * self.block_size
        return hits, len(hits) * self.block_size""",
    ),
]
