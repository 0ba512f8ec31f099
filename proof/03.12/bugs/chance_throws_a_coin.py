STORY = "The test is red by chance. Sooner or later it is red on an engine that is broken."
CONCEPT = "Who gives way keeps what it said: compare whole outputs, with a truth from before the run."


import random


def test_it(lab):
    assert random.random() < 0.8
