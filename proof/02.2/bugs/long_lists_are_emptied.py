STORY = "The pool empties the long list that it gave last, to save memory, while the caller still has it as a table."
CONCEPT = "Lists belong to the caller: none that is given is changed, and none is kept."
EDITS = [
    (
        """            block.ref_cnt = 1
""",
        """            block.ref_cnt = 1
        if len(self.__dict__.get("_last", ())) > 3:
            self._last.clear()
        self._last = taken
""",
    ),
]
