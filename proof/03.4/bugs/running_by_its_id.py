STORY = "A learner takes a request for alive if one of its id runs. The one that has ended gets the tokens of its last step, since the next of the id runs already."
CONCEPT = (
    "A late answer changes neither the request that was in the step nor the next one of its id, which may run already."
)
EDITS = [
    (
        "            if request.status is not RequestStatus.RUNNING:  # finished",
        "            if request.request_id not in {each.request_id for each in self.running}:  # finished",
    )
]
