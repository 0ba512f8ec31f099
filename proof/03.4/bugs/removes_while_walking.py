STORY = (
    "A learner goes over running and takes finished requests out of it on the way. The neighbour behind each of "
    "them is skipped."
)
CONCEPT = "A request that ends changes nothing for its neighbours: each gets its token and keeps its order."
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
