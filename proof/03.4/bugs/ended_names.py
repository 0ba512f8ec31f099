STORY = "A learner notes the ids of those that ended, and passes over them. The next request of such an id never moves."
CONCEPT = "An ended request is known by itself and not by its id, which the next one may have."
EDITS = [
    (
        "if request.status is not RequestStatus.RUNNING:",
        (
            'ended = self.__dict__.setdefault("_ended", set())\n'
            "            if request.status is not RequestStatus.RUNNING or request.request_id in ended:"
        ),
    ),
    (
        ("                    finished.append(request)\n"),
        ("                    finished.append(request)\n                    ended.add(request_id)\n"),
    ),
]
