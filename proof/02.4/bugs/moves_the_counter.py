STORY = (
    "allocate_slots() moves the counter behind the hits. The scheduler moves it, too, or believes that nothing was hit."
)
CONCEPT = "A request is only read: its counters and its status are the scheduler's."
EDITS = [
    (
        """        return new_blocks
""",
        """        request.num_computed_tokens = num_computed
        return new_blocks
""",
    ),
]
