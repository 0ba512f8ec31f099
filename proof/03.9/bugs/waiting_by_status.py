STORY = (
    "A learner counts who has the status WAITING. Victims have another one, so a server that throws out its work "
    "seems to have no queue."
)
CONCEPT = "A victim waits like every other request that does not run."
EDITS = [
    (
        ("            num_waiting_reqs=len(scheduler.waiting),\n"),
        ('            num_waiting_reqs=sum(request.status.name == "WAITING" for request in scheduler.waiting),\n'),
    ),
]
