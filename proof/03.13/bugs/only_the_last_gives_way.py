STORY = "The victim is popped from the end of running: first come, first served whatever the policy."
CONCEPT = "A request that ran when the step began has its turn, whichever requests leave before or behind it."
EDITS = [
    (
        "victim = self._pop_victim()",
        "victim = self.running.pop()",
    ),
]
