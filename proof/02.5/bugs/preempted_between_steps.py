STORY = (
    "Requests are preempted when their step has run, never in the middle of one. What was promised and not "
    "written is never there to be found."
)
CONCEPT = "A hit that is false gives wrong answers: write down whose content a block has, and compare."
EDITS = [
    (
        """        engine.step(a, runs=False)
        if is_finished:
            engine.compute(a, 12)  # the step still runs, and the counter does not know it
            a.num_computed_tokens = computed
            engine.finish(a)
""",
        """        if computed == 0:
            continue
        if is_finished:
            engine.finish(a)
""",
    ),
    (
        """                if action == "preempt in a step":
                    engine.step(request, runs=False)
""",
        "",
    ),
]
