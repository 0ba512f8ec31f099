STORY = (
    "The author puts condition and message into one pair of brackets. A pair that has something in it is true, so "
    "the budget may be broken."
)
CONCEPT = "A limit is a limit in every step: look at each one, with several requests and few blocks."
EDITS = [
    (
        """sum(counts.values()) <= scheduler.max_num_batched_tokens)""",
        """(sum(counts.values()) <= scheduler.max_num_batched_tokens, "all of them together"))""",
    ),
    (
        """        see.true("a step computes at most 3 tokens", sum(step.scheduled.values()) <= 3)
""",
        """        see.true("a step computes tokens", step.scheduled or not scheduler.running)
""",
    ),
]
