STORY = (
    "A step above the budget is a bug, says the author, and so it is. But it costs no token, and tokens are "
    "what was asked for."
)
CONCEPT = "Late, slow, unfair, too large: none of that is a wrong token, and no reason to be red."
EDITS = [
    (
        """        sampled = self.model.execute(output)
        if""",
        """        total = sum(output.num_scheduled_tokens.values())
        self.see.true('the budget is kept', total <= self.scheduler.max_num_batched_tokens)
        sampled = self.model.execute(output)
        if""",
    ),
]
