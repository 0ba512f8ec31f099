STORY = "The test is red by chance. Sooner or later it is red on an engine that is broken."
CONCEPT = "Count all blocks after every step: one that is lost, or is in two places, shows up at once."


import random


def test_it(lab):
    assert random.random() < 0.8
