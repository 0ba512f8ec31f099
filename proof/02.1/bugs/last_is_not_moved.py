STORY = (
    "A queue without end pieces keeps a first and a last, and a removal at the back forgets the last. What is "
    "appended next hangs on the block that left."
)
CONCEPT = "When an end leaves, the next one is the end, and an empty queue is filled again."
BASE = "first_and_last"
EDITS = [
    ("            self._last = before\n", "            if before is None:\n                self._last = None\n"),
]
