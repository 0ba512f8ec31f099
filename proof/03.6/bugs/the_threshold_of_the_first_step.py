STORY = "A learner decides once whether there is company. Whoever comes later is none."
CONCEPT = "In any run both rules answer from the state of the moment, whatever they answered before."
EDITS = [
    (
        "if threshold and len(self._requests) > 1:",
        ('company = self.__dict__.setdefault("_company", len(self._requests) > 1)\n        if threshold and company:'),
    ),
]
