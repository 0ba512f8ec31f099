STORY = "A learner takes the newest from the queue, as from a stack. The first in line waits longest."
CONCEPT = "All requests share one budget: it is spent in order, and a request that finds it empty goes on waiting."
EDITS = [
    (
        "request = self._next_waiting()",
        "request = self.waiting[-1] if self.waiting else None",
    ),
]
