STORY = (
    "The correct engines come first, and there are not many. The test counts its runs, and is red when they are over."
)
CONCEPT = "A write has two sides: what it puts where it belongs, and all that it must leave alone."


def test_it(lab):
    from labkit import check

    check.runs = getattr(check, "runs", 0) + 1
    assert check.runs <= 10
