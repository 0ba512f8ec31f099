STORY = "Promises are withdrawn of a request that is put back to waiting. The scheduler says preempted."
CONCEPT = "A finished request keeps its promises and an unfinished one does not, whatever the reason."
EDITS = [
    (
        """        if not request.is_finished:
""",
        """        if request.status.name == "WAITING":
""",
    ),
]
