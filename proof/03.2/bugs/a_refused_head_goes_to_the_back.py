STORY = "A learner puts a request that does not fit at the back of the queue. It loses its turn to everybody."
CONCEPT = "While the head of the queue does not fit, those behind it wait too, so it cannot starve."
EDITS = [
    (
        ("computed_blocks):\n                break"),
        ("computed_blocks):\n                self.waiting.rotate(-1)\n                break"),
    ),
]
