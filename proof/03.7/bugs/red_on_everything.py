STORY = "The test is red whatever it runs on. So it is red on every engine that is broken, and has found none."
CONCEPT = "A limit is a limit in every step: look at each one, with several requests and few blocks."


def test_it(lab):
    assert False
