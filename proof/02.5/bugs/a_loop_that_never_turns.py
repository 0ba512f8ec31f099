STORY = (
    "The condition of the loop is the wrong way round. It is false at once, so no chunk is ever computed, and "
    "the test is green on everything."
)
CONCEPT = "Room is a matter of rounding: try sizes and lengths that do not divide each other."
EDITS = [
    (
        """        while a.num_computed_tokens < a.num_tokens:
            assert engine.step(a, chunk)
        for letter in "bcdefghijklmn":
            a.append_output_token(ord(letter))
            assert engine.step(a)
        engine.finish(a)
""",
        """        while a.num_computed_tokens > a.num_tokens:
            assert engine.step(a, chunk)
""",
    ),
]
