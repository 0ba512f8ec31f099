STORY = (
    "A learner puts a prompt that does not fit at the end of the queue, so that the others can be looked at. It "
    "loses its turn."
)
CONCEPT = "A deferred head is not refused: it keeps its place, and no request behind it passes."
EDITS = [
    (
        ("                if output.num_scheduled_tokens:\n                    break\n"),
        (
            "                if output.num_scheduled_tokens:\n"
            "                    self.waiting.rotate(-1)\n"
            "                    break\n"
        ),
    ),
]
