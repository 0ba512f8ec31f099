STORY = "The test comes back from no engine, broken or correct."
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."


def test_it(lab):
    while True:
        pass
