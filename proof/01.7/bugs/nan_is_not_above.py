STORY = "The error must not be above the bound, which sounds the same as at most the bound. NaN is not above anything."
CONCEPT = "Who reads too much is found out only if what lies there does harm."
EDITS = [
    (
        '    assert error <= bound, f"',
        '    assert not error > bound, f"',
    ),
]
