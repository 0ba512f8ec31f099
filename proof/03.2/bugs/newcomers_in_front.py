STORY = "A learner inserts newcomers at the front of running. The oldest becomes the victim."
CONCEPT = "A place that becomes free is taken in the next step; no request waits for the whole batch to end."
EDITS = [
    (
        "self.running.append(request)",
        "self.running.insert(0, request)",
    ),
]
