STORY = "A learner collects the finished in the class. The second scheduler returns those of the first as well."
CONCEPT = "Each call returns the requests that it ended, in the order of the step; an earlier answer stays as it is."
EDITS = [
    (
        ("        finished: list[Request] = []\n"),
        (
            "        finished = Scheduler.collected = [request for request in Scheduler.collected if request not in self.running]\n"
        ),
    ),
    (
        ('    """What is not defined here is the reference\'s."""\n'),
        ('    """What is not defined here is the reference\'s."""\n\n    collected: list = []\n'),
    ),
]
