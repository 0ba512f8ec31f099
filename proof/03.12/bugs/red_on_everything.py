STORY = "The test is red whatever it runs on. So it is red on every engine that is broken, and has found none."
CONCEPT = "Who gives way keeps what it said: compare whole outputs, with a truth from before the run."


def test_it(lab):
    assert False
