STORY = (
    "The victims are taken from the output, and compared with the output. Nobody asks who has really stopped to run."
)
CONCEPT = "Count places and blocks before and after the model runs: who leaves gives all of it back."
EDITS = [
    (
        """    victims = [request for request in ran if request not in run.scheduler.running]
""",
        """    victims = [request for request in ran if request.request_id in output.preempted_req_ids]
""",
    ),
]
