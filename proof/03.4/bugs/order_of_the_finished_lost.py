STORY = "A learner collects the finished requests in reverse. Answers are mixed up where the caller goes by order."
CONCEPT = "Who ends and who stays does not depend on the place: neighbours all get their token."
EDITS = [
    (
        ("                    finished.append(request)\n"),
        ("                    finished.insert(0, request)\n"),
    ),
]
