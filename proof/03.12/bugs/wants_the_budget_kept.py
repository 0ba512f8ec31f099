STORY = (
    "A step above the budget is a bug, says the author, and so it is. But it costs no token, and tokens are "
    "what was asked for."
)
CONCEPT = "Late, slow, unfair, too large: none of that is a wrong token, and no reason to be red."
EDITS = [
    (
        """# --- the workloads ----""",
        """def test_the_budget(lab):
    scheduler = make(lab, budget=6)
    model = lab.HonestModel(scheduler)
    for name in "abc":
        scheduler.add_request(make_request(lab, name, 5))
    while scheduler.has_unfinished_requests():
        output = scheduler.schedule()
        assert sum(output.num_scheduled_tokens.values()) <= 6
        scheduler.update_from_output(output, model.execute(output))


# --- the workloads ----""",
    ),
]
