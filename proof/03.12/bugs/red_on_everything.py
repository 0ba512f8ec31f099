STORY = "The test is red whatever it runs on. So it is red on every engine that is broken, and has found none."
CONCEPT = "A preempted request keeps its output: compare whole outputs with a truth from before the run."


def test_it(lab):
    assert False
