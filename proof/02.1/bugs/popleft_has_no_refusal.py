STORY = "popleft() of an empty queue looks at the end itself and fails with an error of another kind."
CONCEPT = "Too many asked for: ValueError, and not one block is taken."
EDITS = [
    (
        """        return self.popleft_n(1)[0]
""",
        """        block = self._head.next_free_block
        if block is self._tail:
            raise IndexError("pop from an empty queue")
        self.remove(block)
        return block
""",
    ),
]
