STORY = (
    "A learner goes over running and takes finished requests out of it on the way. The neighbour behind each of "
    "them is skipped."
)
CONCEPT = "Who ends and who stays does not depend on the place: neighbours all get their token."
EDITS = [
    (
        "for request in output.scheduled_requests:",
        "for request in self.running:",
    ),
    (
        ("                    finished.append(request)\n"),
        ("                    finished.append(request)\n                    self.running.remove(request)\n"),
    ),
]
