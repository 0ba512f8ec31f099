STORY = "The budget is compared with each request's chunk and not with their sum. Together they may compute any number."
CONCEPT = "A limit is a limit in every step: look at each one, with several requests and few blocks."
EDITS = [
    (
        """sum(counts.values()) <= scheduler.max_num_batched_tokens)""",
        """max(counts.values(), default=0) <= scheduler.max_num_batched_tokens)""",
    ),
    (
        """sum(step.scheduled.values()) <= 3)""",
        """max(step.scheduled.values(), default=0) <= 3)""",
    ),
]
