STORY = "A learner takes the newest from the queue, as from a stack. The first in line waits longest."
CONCEPT = "One budget for all: it is spent in order, and who finds it empty goes on waiting."
EDITS = [
    (
        "request = self._next_waiting()",
        "request = self.waiting[-1] if self.waiting else None",
    ),
]
