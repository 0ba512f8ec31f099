STORY = (
    "Only a request that reached its length keeps its promise. One that is aborted while the step runs loses "
    "what is being written."
)
CONCEPT = "A finished request keeps its promises and an unfinished one does not, whatever the reason."
EDITS = [
    (
        """        if not request.is_finished:
""",
        """        if request.status.name != "FINISHED_LENGTH":
""",
    ),
]
