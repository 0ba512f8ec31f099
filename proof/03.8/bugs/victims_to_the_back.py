STORY = "A learner queues the victim like a newcomer. Whoever arrived later is served before it."
CONCEPT = "When blocks run out, the youngest gives way; the others decode as if it had never been there."
BASE = "own_loop"
EDITS = [
    (
        "                self._preempt(victim)\n",
        ("                self._preempt(victim)\n                self.waiting.rotate(-1)\n"),
    ),
]
