STORY = (
    "append_n closes the gap forwards only. The far end still believes that the old back is the last, and the "
    "next append cuts off what came between."
)
CONCEPT = "To put nothing in, or to take nothing out, changes nothing; an empty queue gives nothing."
EDITS = [
    (
        """        last.next_free_block = self._tail
        self._tail.prev_free_block = last""",
        "        last.next_free_block = self._tail",
    ),
]
