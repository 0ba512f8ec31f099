STORY = "A request that was preempted is not looked up, and computes its prompt and its answer again."
CONCEPT = "A request that comes back finds its output as well as its prompt."
EDITS = [
    (
        """        if self.enable_prefix_caching:
""",
        """        if self.enable_prefix_caching and not request.num_preemptions:
""",
    ),
]
