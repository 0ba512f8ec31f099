STORY = "A learner returns the list of the step itself when all of it has ended. Whoever changes one changes the other."
CONCEPT = "The list that is returned is the caller's: it is new each time, and no list of the output."
EDITS = [
    (
        "        return finished\n",
        "        return output.scheduled_requests if finished == output.scheduled_requests else finished\n",
    )
]
