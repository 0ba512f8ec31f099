STORY = "A test waits until somebody waits again, and nobody is left who could. The loop never ends."
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """def test_a_walk(lab):
""",
        """def test_until_all_are_served(lab):
    run = Run(lab)
    run.add("a", 5)
    run.step()
    while not run.scheduler.waiting:
        lab.drive(run.scheduler)


def test_a_walk(lab):
""",
    ),
]
