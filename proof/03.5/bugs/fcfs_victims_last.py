STORY = "A learner drops the special case of victims while adding priority. A victim loses its place to all newcomers."
CONCEPT = "Under first come, first served the numbers mean nothing: newcomers at the back, victims at the front."
EDITS = [
    (
        ("        elif request.status is RequestStatus.PREEMPTED:\n            self.waiting.appendleft(request)\n"),
        "",
    ),
]
