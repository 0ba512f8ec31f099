STORY = (
    "A learner takes the victim from the front. The request that has worked longest loses everything, and may be "
    "the one that asks."
)
CONCEPT = "When blocks run out, the youngest gives way; the others compute as if it had never been there."
EDITS = [
    (
        "victim = self._pop_victim()",
        "victim = self.running.pop(0)",
    ),
]
