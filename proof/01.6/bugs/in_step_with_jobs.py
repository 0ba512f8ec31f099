STORY = (
    "Requests that run and jobs are walked side by side. As soon as the first job has ended, each is "
    "measured by another's lengths."
)
CONCEPT = "All that run are added up, each by its own lengths: an id is the place in jobs."
EDITS = [
    (
        """    for request_id, num_written in written.items():
""",
        """    for (request_id, num_written), job in zip(written.items(), jobs):
""",
    ),
    (
        "min(held, jobs[request_id].num_tokens)",
        "min(held, job.num_tokens)",
    ),
]
