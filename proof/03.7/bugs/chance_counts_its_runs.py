STORY = (
    "The correct engines come first, and there are not many. The test counts its runs, and is red when they are over."
)
CONCEPT = "Count places and blocks before and after the model runs: a request that leaves frees all of its own."


def test_it(lab):
    from labkit import check

    check.runs = getattr(check, "runs", 0) + 1
    assert check.runs <= 10
