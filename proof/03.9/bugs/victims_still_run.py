STORY = "A learner counts victims with those that run, since they will run again."
CONCEPT = "A victim waits like every other request that does not run."
EDITS = [
    (
        ("            num_running_reqs=len(scheduler.running),\n"),
        (
            "            num_running_reqs=len(scheduler.running)\n"
            '            + sum(r.status.name == "PREEMPTED" for r in scheduler.waiting),\n'
        ),
    ),
]
