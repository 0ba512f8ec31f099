STORY = "The pool returns a list that it keeps and fills anew the next time, so an earlier table changes."
CONCEPT = "Lists belong to the caller: none that is given is changed, and none is kept."
EDITS = [
    (
        """        for block in taken:
            self.uncache_block(block)
            block.ref_cnt = 1
        return taken
""",
        """        for block in taken:
            self.uncache_block(block)
            block.ref_cnt = 1
        self._taken = getattr(self, "_taken", [])
        self._taken[:] = taken
        return self._taken
""",
    ),
]
