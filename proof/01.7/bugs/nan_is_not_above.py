STORY = "The error must not be above the bound, which sounds the same as at most the bound. NaN is not above anything."
CONCEPT = "A read beyond the sight is noticed only if the value that lies there does harm."
EDITS = [
    (
        '    assert error <= bound, f"',
        '    assert not error > bound, f"',
    ),
]
