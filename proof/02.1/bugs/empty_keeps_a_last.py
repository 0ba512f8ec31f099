STORY = (
    "When the only block leaves, first becomes None and last keeps it. The queue is empty, and the next append "
    "hangs on a block that is somewhere else."
)
CONCEPT = "When an end leaves, the next one is the end, and an empty queue is filled again."
BASE = "first_and_last"
EDITS = [
    ("            self._last = before\n", "            if before is not None:\n                self._last = before\n"),
]
