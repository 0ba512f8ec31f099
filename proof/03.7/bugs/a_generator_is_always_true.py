STORY = (
    "The limits are written as generators, and all() is forgotten around them. A generator is true whatever is in it."
)
CONCEPT = "A limit is a limit in every step: look at each one, with several requests and few blocks."
EDITS = [
    (
        """    see.true("the step keeps to the budget", sum(counts.values()) <= scheduler.max_num_batched_tokens)
    see.true("at most max_num_seqs run", len(scheduler.running) <= scheduler.max_num_seqs)
""",
        """    most_tokens, most_requests = scheduler.max_num_batched_tokens, scheduler.max_num_seqs
    see.true("the step keeps to the budget", (sum(counts.values()) <= limit for limit in [most_tokens]))
    see.true("at most max_num_seqs run", (len(scheduler.running) <= limit for limit in [most_requests]))
""",
    ),
]
