STORY = "The pool returns a list that it keeps and fills anew the next time, so an earlier table changes."
CONCEPT = "Lists belong to the caller: none that is given is changed, and none is kept."
EDITS = [
    (
        "        for block in taken:\n            self.uncache_block(block)\n            block.ref_cnt = 1\n        return taken\n",
        '        for block in taken:\n            self.uncache_block(block)\n            block.ref_cnt = 1\n        self._taken = getattr(self, "_taken", [])\n        self._taken[:] = taken\n        return self._taken\n',
    )
]
