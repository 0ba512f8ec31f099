STORY = (
    "The victims are taken from the output, and compared with the output. Nobody asks who has really stopped to run."
)
CONCEPT = "Count places and blocks before and after the model runs: a request that leaves frees all of its own."
EDITS = [
    (
        """    victims = [request for request in ran if request not in run.scheduler.running]
""",
        """    victims = [request for request in ran if request.request_id in output.preempted_req_ids]
""",
    ),
]
