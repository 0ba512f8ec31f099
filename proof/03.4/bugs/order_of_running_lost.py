STORY = "A learner moves whoever got a token to the end of running. The oldest becomes the next victim."
CONCEPT = "Who ends and who stays does not depend on the place: neighbours all get their token."
EDITS = [
    (
        (
            "        if finished:\n"
            "            self.running = [request for request in self.running if request.status is RequestStatus.RUNNING]\n"
        ),
        (
            "        scheduled = [request for request in output.scheduled_requests if request.status is RequestStatus.RUNNING]\n"
            "        others = [request for request in self.running if request not in output.scheduled_requests]\n"
            "        self.running = others + scheduled[::-1]\n"
        ),
    ),
]
