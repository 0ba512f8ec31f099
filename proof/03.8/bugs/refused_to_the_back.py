STORY = "A learner sends a head without blocks to the end of the queue. Short prompts pass it for as long as they come."
CONCEPT = "A deferred head is not refused: it keeps its place, and no request behind it passes."
EDITS = [
    (
        ("            if kv.allocate_slots(request, n, computed_blocks) is None:\n                break\n"),
        ("            if kv.allocate_slots(request, n, computed_blocks) is None:\n                break\n"),
    ),
    (
        ("            if not self._may_admit(request, num_computed + n, computed_blocks):\n                break\n"),
        (
            "            if not self._may_admit(request, num_computed + n, computed_blocks):\n"
            "                self.waiting.rotate(-1)\n"
            "                break\n"
        ),
    ),
]
