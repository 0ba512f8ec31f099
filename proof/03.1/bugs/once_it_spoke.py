STORY = (
    "A learner notes the ids of those that have sampled, for good. A later request of the same id samples "
    "in each of its chunks."
)
CONCEPT = (
    "Two counters alone say whether a request has caught up; old hits, preemptions and output are in them already."
)
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        (
            "if request.num_computed_tokens + num_scheduled >= request.num_tokens:\n"
            "            Scheduler.spoke.add(request.request_id)\n"
            "        return request.request_id in Scheduler.spoke"
        ),
    ),
    (
        ('    """What is not defined here is the reference\'s."""\n'),
        ('    """What is not defined here is the reference\'s."""\n\n    spoke = set()\n'),
    ),
]
