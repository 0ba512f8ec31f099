STORY = "A request that ended with an error has its promises withdrawn, though the step writes them."
CONCEPT = "A finished request keeps its promises and an unfinished one does not, whatever the reason."
EDITS = [
    (
        """        if not request.is_finished:
""",
        """        if not request.is_finished or request.finish_reason == "error":
""",
    ),
]
