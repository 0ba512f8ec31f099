STORY = "A learner preempts whoever finds no block. The oldest request is thrown out while the youngest runs on."
CONCEPT = "When blocks run out, the youngest gives way; the others compute as if it had never been there."
EDITS = [
    (
        "victim = self._pop_victim()",
        ("victim = request\n                self.running.remove(request)"),
    ),
]
