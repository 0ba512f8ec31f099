STORY = (
    "Whether somebody has left is told by the head of waiting: true for the last victim, and not for those before it."
)
CONCEPT = "A request that ran when the step began has its turn, whichever requests leave before or behind it."
EDITS = [
    (
        "            if request.status is preempted:",
        "            if request.status is preempted and self.waiting[0] is request:",
    ),
]
