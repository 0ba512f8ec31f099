STORY = (
    "A learner returns the finished in the order of their ids. The order of the step is lost where names do not ascend."
)
CONCEPT = "Each call returns the requests that it ended, in the order of the step; an earlier answer stays as it is."
EDITS = [
    (
        ("        return finished\n"),
        ("        return sorted(finished, key=lambda request: request.request_id)\n"),
    ),
]
