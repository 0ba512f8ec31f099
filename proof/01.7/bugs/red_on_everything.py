STORY = "The test is red whatever it runs on. So it is red on every engine that is broken, and has found none."
CONCEPT = "A slot follows from table, position and block size alone, however odd or large they are."


def test_it(lab):
    assert False
