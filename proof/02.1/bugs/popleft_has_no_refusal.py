STORY = "popleft() of an empty queue looks at the end itself and fails with an error of another kind."
CONCEPT = "Too many asked for: ValueError, and not one block is taken."
EDITS = [
    (
        "        return self.popleft_n(1)[0]\n",
        '        block = self._head.next_free_block\n        if block is self._tail:\n            raise IndexError("pop from an empty queue")\n        self.remove(block)\n        return block\n',
    )
]
