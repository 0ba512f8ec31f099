STORY = "A learner preempts the one that finds no slot. An old request pays for the young."
CONCEPT = "When blocks run out, the youngest gives way; the others decode as if it had never been there."
BASE = "own_loop"
EDITS = [
    (
        "victim = self._pop_victim()",
        "victim = self.running.pop(self.running.index(request))",
    ),
]
