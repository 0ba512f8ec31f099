STORY = (
    "The author counts the calls of a method that the contract does not name. An engine that does the work in one "
    "place never calls it."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """def test_a_walk(lab):
""",
        """def test_those_that_run_are_served_first(lab):
    scheduler, calls = make(lab), []
    inside = scheduler._schedule_running
    scheduler._schedule_running = lambda *given: calls.append(given) or inside(*given)
    scheduler.add_request(make_request(lab, "a", 5))
    lab.drive(scheduler)
    check()("how often the running requests were gone over", len(calls), equals=1)


def test_a_walk(lab):
""",
    ),
]
