STORY = (
    "The author prints a run with few blocks and pastes it in as what is expected. It is one of many correct schedules."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """def test_a_walk(lab):
""",
        """def test_a_recorded_run(lab):
    scheduler = make(lab, blocks=4, block_size=2, budget=3)
    for name in "ab":
        scheduler.add_request(make_request(lab, name, 5, max_tokens=2))
    got = [" ".join(f"{name}{n}" for name, n in lab.drive(scheduler).scheduled.items()) for _ in range(6)]
    check()("six steps", got, equals=["a3", "a2", "a1", "b3", "b2", "b1"])


def test_a_walk(lab):
""",
    ),
]
