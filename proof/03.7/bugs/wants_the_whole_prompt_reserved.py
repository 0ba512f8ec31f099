STORY = (
    "The author saw a prompt wait until all of it fitted, and took it for a law. An engine that begins with the "
    "first chunk is as correct."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """def test_a_walk(lab):
""",
        """def test_half_a_prompt_is_not_admitted(lab):
    run = Run(lab, blocks=4, budget=6)
    run.add("a", 7, max_tokens=9)
    run.step()
    b = run.add("b", 12)
    run.step()
    run.see.true("b waits", b in run.scheduler.waiting)


def test_a_walk(lab):
""",
    ),
]
