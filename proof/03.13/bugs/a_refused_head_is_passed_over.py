STORY = "Who may not come in lets the next one try: a long prompt waits for ever."
CONCEPT = "Admission asks for more than slots: reservation and watermark may refuse, and then no request comes in."
EDITS = [
    (
        "computed_blocks):\n                break\n            if kv",
        "computed_blocks):\n                if len(self.waiting) < 2:\n                    break\n                self.waiting.rotate(-1)\n                token_budget -= 1\n                continue\n            if kv",
    ),
]
