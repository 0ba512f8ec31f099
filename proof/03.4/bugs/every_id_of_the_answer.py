STORY = (
    "A learner looks requests up by the id that the answer names. A newcomer of that id is moved on although it "
    "never ran."
)
CONCEPT = "A late answer cannot end a request a second time."
EDITS = [
    (
        (
            "            if request.status is not RequestStatus.RUNNING:  # finished from outside while the model ran\n"
            "                continue\n"
        ),
        (
            "            request = self._requests.get(request.request_id, request)\n"
            "            if request.is_finished:\n"
            "                continue\n"
        ),
    ),
]
