STORY = "A prompt that exceeds what is left of the budget lets a shorter one overtake it."
CONCEPT = "Without chunked prefill the budget cuts no newcomer: it waits for a step that holds it, and so do others."
EDITS = [
    (
        "            if n > token_budget or",
        "            if n > token_budget and len(self.waiting) > 1:\n                late = self.waiting.popleft()\n                self._schedule_waiting(output, token_budget)\n                self.waiting.appendleft(late)\n                break\n            if n > token_budget or",
    ),
]
