STORY = "A learner takes the victim from the front of running. The one that has computed most loses it."
CONCEPT = "When blocks run out, the youngest gives way; the others decode as if it had never been there."
BASE = "own_loop"
EDITS = [
    (
        "victim = self._pop_victim()",
        "victim = self.running.pop(0)",
    ),
]
