STORY = (
    "The number of those that run is compared with the number of blocks, the wrong limit. It is the larger one in "
    "every run."
)
CONCEPT = "A limit is a limit in every step: look at each one, with several requests and few blocks."
EDITS = [
    (
        """len(scheduler.running) <= scheduler.max_num_seqs)""",
        """len(scheduler.running) <= run.kv.num_usable_blocks)""",
    ),
]
