STORY = "A learner collects the finished requests in reverse. Answers are mixed up where the caller goes by order."
CONCEPT = "A request that ends changes nothing for its neighbours: each gets its token and keeps its order."
EDITS = [
    (
        ("                    finished.append(request)\n"),
        ("                    finished.insert(0, request)\n"),
    ),
]
