STORY = "The pool notes at a release which blocks have names, and asks its notes at the next one instead of the block."
CONCEPT = "A name may come or go while a block is held: what counts is the name that it has when it is freed."
EDITS = [
    (
        """            block.ref_cnt = 1
""",
        """            block.ref_cnt = 1
            self.__dict__.setdefault("_named", set()).discard(block)
""",
    ),
    (
        """        for block in reversed(table):
""",
        """        named = self.__dict__.setdefault("_named", set())
        named.update(block for block in table if block.block_hash is not None)
        for block in reversed(table):
""",
    ),
    ("(useless if block.block_hash is None else cached)", "(useless if block not in named else cached)"),
]
