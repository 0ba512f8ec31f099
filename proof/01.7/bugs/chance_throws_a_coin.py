STORY = "The test is red by chance. Sooner or later it is red on an engine that is broken."
CONCEPT = "A slot follows from table, position and block size alone, however odd or large they are."


import random


def test_it(lab):
    assert random.random() < 0.8
