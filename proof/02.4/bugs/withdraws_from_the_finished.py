STORY = (
    "A finished request is treated like a preempted one. Its last step still runs and writes its blocks, and "
    "nobody can find them."
)
CONCEPT = "What was promised and not written is not found; what was written, or will be, stays."
EDITS = [
    (
        """        if not request.is_finished:
""",
        """        if True:
""",
    ),
]
