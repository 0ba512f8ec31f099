STORY = "A learner lets a request become more urgent each time after the first that it gives way."
CONCEPT = "A victim stays what it is: its limits, its salt, its number, its time and its first hit."
EDITS = [
    (
        "        request.num_preemptions += 1\n",
        "        request.priority -= min(1, request.num_preemptions)\n        request.num_preemptions += 1\n",
    ),
]
