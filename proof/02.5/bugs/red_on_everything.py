STORY = "The test is red whatever it runs on. So it is red on every engine that is broken, and has found none."
CONCEPT = "Count all blocks after every step: one that is lost, or is in two places, shows up at once."


def test_it(lab):
    assert False
