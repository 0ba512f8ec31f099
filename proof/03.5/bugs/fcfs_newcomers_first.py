STORY = "A learner mixes up the two ends. The newest is admitted first."
CONCEPT = "Under first come, first served the numbers mean nothing: newcomers at the back, victims at the front."
EDITS = [
    (
        ("            self.waiting.append(request)\n"),
        ("            self.waiting.appendleft(request)\n"),
    ),
]
