STORY = (
    "The run goes on until somebody has been preempted, since only then it means something. With some "
    "schedulers nobody is."
)
CONCEPT = "Late, slow, unfair, too large: none of that is a wrong token, and no reason to be red."
EDITS = [
    (
        """        for _ in range(300):
            if self.scheduler.has_unfinished_requests():
                self.step()
""",
        """        while not any(request.num_preemptions for request in self.expected):
            if self.scheduler.has_unfinished_requests():
                self.step()
""",
    ),
]
