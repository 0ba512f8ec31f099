STORY = "free() counts a preemption for the request, which the scheduler does, too."
CONCEPT = "A request is only read: its counters and its status are the scheduler's."
EDITS = [
    (
        """        if not request.is_finished:
""",
        """        if not request.is_finished:
            request.num_preemptions += 1
""",
    ),
]
