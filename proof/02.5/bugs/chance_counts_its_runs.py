STORY = (
    "The correct engines come first, and there are not many. The test counts its runs, and is red when they are over."
)
CONCEPT = "Room is a matter of rounding: try sizes and lengths that do not divide each other."


def test_it(lab):
    from labkit import check

    check.runs = getattr(check, "runs", 0) + 1
    assert check.runs <= 10
