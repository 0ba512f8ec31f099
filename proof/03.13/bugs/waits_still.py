STORY = "The newcomer runs, and its status says that it waits."
CONCEPT = "An admitted request has left waiting, from any place in it, and runs last, past its head start."
EDITS = [
    (
        "        request.status = RequestStatus.RUNNING\n",
        "",
    ),
]
