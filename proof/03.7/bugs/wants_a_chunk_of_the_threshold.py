STORY = (
    "The option is called a threshold, so the author wants each chunk cut by it. How large a chunk is was left open."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """def test_a_walk(lab):
""",
        """def test_the_threshold_cuts(lab):
    scheduler = make(lab, long_prefill_token_threshold=3)
    for name in "ab":
        scheduler.add_request(make_request(lab, name, 9))
    step = lab.drive(scheduler)
    check(lab.draw.scheduler, scheduler)("the first step", step.scheduled, equals={"a": 3, "b": 3})


def test_a_walk(lab):
""",
    ),
]
