STORY = (
    "Promises are kept of a request whose status is running still, when the scheduler frees it before it "
    "changes the status."
)
CONCEPT = "A finished request keeps its promises and an unfinished one does not, whatever the reason."
EDITS = [
    (
        """        if not request.is_finished:
""",
        """        if not request.is_finished and request.status.name != "RUNNING":
""",
    ),
]
