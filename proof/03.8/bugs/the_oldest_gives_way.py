STORY = "A learner takes the victim from the front of running. The one that has computed most loses it."
CONCEPT = "When blocks run out, the youngest gives way; the others decode as if it had never been there."
EDITS = [
    (
        "victim = scheduler._pop_victim()",
        "victim = scheduler.running.pop(0)",
    ),
]
