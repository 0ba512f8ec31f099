STORY = (
    "A learner counts preemptions in the scheduler by request id. A later request of the same id begins "
    "with the count of the one before."
)
CONCEPT = "In any run a victim is the last, gives back all but its tokens, and stands at the front of the queue."
EDITS = [
    (
        "request.num_preemptions += 1",
        (
            'counts = self.__dict__.setdefault("_counts", {})\n'
            "        counts[request.request_id] = counts.get(request.request_id, 0) + 1\n"
            "        request.num_preemptions = counts[request.request_id]"
        ),
    ),
]
