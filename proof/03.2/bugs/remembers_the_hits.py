STORY = (
    "A learner remembers by id what the cache said when a request came to the head. Until it fits, the "
    "blocks have been given to others."
)
CONCEPT = "In any run a step follows from the two lists, the free blocks and the budget, and from no step before."
EDITS = [
    (
        "computed_blocks, num_computed = kv.get_computed_blocks(request)",
        (
            'found = self.__dict__.setdefault("_found", {})\n'
            "            computed_blocks, num_computed = found.setdefault(request.request_id, kv.get_computed_blocks(request))"
        ),
    ),
]
