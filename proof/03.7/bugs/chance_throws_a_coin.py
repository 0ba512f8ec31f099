STORY = "The test is red by chance. Sooner or later it is red on an engine that is broken."
CONCEPT = "A limit is a limit in every step: look at each one, with several requests and few blocks."


import random


def test_it(lab):
    assert random.random() < 0.8
