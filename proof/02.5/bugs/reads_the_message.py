STORY = "The text of an error is part of the test. Whoever says the same thing in other words fails it."
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """    with raises(ValueError, "3 blocks are asked for, 2 are free"):
        pool.get_new_blocks(3)
""",
        """    try:
        pool.get_new_blocks(3)
        assert False, "3 blocks are asked for, 2 are free"
    except ValueError as error:
        assert str(error) == "cannot take 3 blocks, 2 are free"
""",
    ),
]
