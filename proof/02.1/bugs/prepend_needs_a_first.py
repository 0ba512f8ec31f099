STORY = (
    "prepend_n begins with blocks[0], the new front. A table without useless blocks has none, and giving it "
    "back ends with an IndexError."
)
CONCEPT = "To put nothing in, or to take nothing out, changes nothing; an empty queue gives nothing."
EDITS = [
    (
        """        first = self._head.next_free_block
        last = self._head
""",
        """        blocks = list(blocks)
        first = self._head.next_free_block
        last = self._head
        last.next_free_block = blocks[0]
""",
    ),
]
