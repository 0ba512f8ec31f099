STORY = "free() sets the status of an unfinished request."
CONCEPT = "A request is only read: its counters and its status are the scheduler's."
EDITS = [
    (
        """        if not request.is_finished:
""",
        """        if not request.is_finished:
            request.status = type(request.status).PREEMPTED
""",
    ),
]
