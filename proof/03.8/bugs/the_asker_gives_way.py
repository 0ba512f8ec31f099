STORY = "A learner preempts the one that finds no slot. An old request pays for the young."
CONCEPT = "When blocks run out, the youngest gives way; the others decode as if it had never been there."
EDITS = [
    (
        "victim = scheduler._pop_victim()",
        "victim = scheduler.running.pop(scheduler.running.index(request))",
    ),
]
