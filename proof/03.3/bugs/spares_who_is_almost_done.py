STORY = (
    "A learner spares a request that is one token from its end, since it is about to give its blocks "
    "back. The one before it gives way."
)
CONCEPT = "The place in running decides: not a request's past, not what is left to do, not what it would give back."
EDITS = [
    (
        ('        if self.policy == "fcfs":\n            return self.running.pop()\n'),
        (
            '        if self.policy == "fcfs":\n'
            "            last = self.running[-1]\n"
            "            if len(self.running) > 1 and len(last.output_token_ids) == last.max_tokens - 1:\n"
            "                return self.running.pop(-2)\n"
            "            return self.running.pop()\n"
        ),
    ),
]
