STORY = (
    "A learner asks whether the id is still in the books. If somebody else has it meanwhile, the late answer ends"
    " the old request again, and the new one is forgotten."
)
CONCEPT = "A late answer cannot end a request a second time."
EDITS = [
    (
        (
            "            if request.status is not RequestStatus.RUNNING:  # finished from outside while the model ran\n"
            "                continue\n"
        ),
        ("            if request.request_id not in self._requests:\n                continue\n"),
    ),
]
