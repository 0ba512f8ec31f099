STORY = "popleft() has a quick way for the last block, which leaves its links. remove() of that block passes and the number becomes -1."
CONCEPT = "A block that is not in the queue cannot be removed: ValueError, and nothing changes."
EDITS = [
    (
        "        return self.popleft_n(1)[0]\n",
        "        block = self._head.next_free_block\n        if self.num_free_blocks == 1:\n            self._head.next_free_block, self._tail.prev_free_block = self._tail, self._head\n            self.num_free_blocks = 0\n            return block\n        return self.popleft_n(1)[0]\n",
    )
]
