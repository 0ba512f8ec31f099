STORY = (
    "The correct engines come first, and there are not many. The test counts its runs, and is red when they are over."
)
CONCEPT = "What was swapped comes back to the last slot: let someone give way in the middle of a block."


def test_it(lab):
    from labkit import check

    check.runs = getattr(check, "runs", 0) + 1
    assert check.runs <= 10
