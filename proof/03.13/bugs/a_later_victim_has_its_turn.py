STORY = (
    "Whether somebody has left is told by the head of waiting: true for the last victim, and not for those before it."
)
CONCEPT = "Who ran when the step began has its turn, whoever leaves before or behind it."
EDITS = [
    (
        "            if request.status is preempted:",
        "            if request.status is preempted and self.waiting[0] is request:",
    ),
]
