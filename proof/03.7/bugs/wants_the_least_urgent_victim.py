STORY = (
    "Under priority the least urgent should give way, the author thinks, and so it did in the engine at hand. The "
    "contract says who is admitted, not who gives way."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """def test_a_walk(lab):
""",
        """def test_the_least_urgent_gives_way(lab):
    run = Run(lab, policy="priority", blocks=2)
    run.add("a", 3, priority=9)
    run.step()
    run.add("b", 3, priority=0)
    for _ in range(3):
        run.step()
    run.see("who runs", names(run.scheduler.running), equals=["b"])


def test_a_walk(lab):
""",
    ),
]
