STORY = "The test comes back from no engine, broken or correct."
CONCEPT = "Late, slow, unfair, too large: none of that is a wrong token, and no reason to be red."


def test_it(lab):
    while True:
        pass
