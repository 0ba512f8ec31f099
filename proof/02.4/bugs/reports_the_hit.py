STORY = "allocate_slots() writes the hit into the report of the request, which is done once and by the scheduler."
CONCEPT = "A request is only read: its counters and its status are the scheduler's."
EDITS = [
    (
        """        return new_blocks
""",
        """        request.num_cached_tokens = request.num_cached_tokens or len(computed_blocks) * block_size
        return new_blocks
""",
    ),
]
