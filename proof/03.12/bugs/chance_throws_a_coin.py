STORY = "The test is red by chance. Sooner or later it is red on an engine that is broken."
CONCEPT = "A preempted request keeps its output: compare whole outputs with a truth from before the run."


import random


def test_it(lab):
    assert random.random() < 0.8
