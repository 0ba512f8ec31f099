STORY = (
    "The author finds counters of the prefix cache on the scheduler and asserts them too. They are not in the "
    "contract, and not everybody keeps them."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """def test_a_walk(lab):
""",
        """def test_admissions_are_counted(lab):
    run = Run(lab)
    run.add("a", 5)
    run.to_the_end()
    run.see("how many requests were looked up", run.scheduler.prefix_cache_stats.requests, equals=1)


def test_a_walk(lab):
""",
    ),
]
