STORY = "A learner saves a list when nobody ended: the next step fills the same one. The caller of the step before sees requests in its answer."
CONCEPT = "The list that is returned is the caller's: it is new each time, and no list of the output."
EDITS = [
    (
        "        finished: list[Request] = []\n",
        '        finished = self.__dict__.get("_last", [])\n        if finished:\n            finished = []\n        self._last = finished\n',
    )
]
