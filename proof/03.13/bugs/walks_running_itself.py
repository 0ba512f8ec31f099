STORY = "The loop goes over running, from which a victim is removed: the one behind it has no turn."
CONCEPT = "A request that ran when the step began has its turn, whichever requests leave before or behind it."
EDITS = [
    (
        "self._schedule_running(list(self.running), output",
        "self._schedule_running(self.running, output",
    ),
]
