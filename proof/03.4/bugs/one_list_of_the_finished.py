STORY = (
    "A learner keeps one list of the finished and empties it at each call. What the call before returned is empty now."
)
CONCEPT = "Each call returns the requests that it ended, in the order of the step; an earlier answer stays as it is."
EDITS = [
    (
        ("        finished: list[Request] = []\n"),
        ('        finished = self.__dict__.setdefault("_finished", [])\n        finished.clear()\n'),
    ),
]
