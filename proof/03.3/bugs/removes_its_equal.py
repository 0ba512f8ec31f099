STORY = (
    "A learner looks for the victim by the number of its tokens when it takes it out. Another one of that "
    "length leaves running in its place."
)
CONCEPT = "The place in running decides: not a request's past, not what is left to do, not what it would give back."
EDITS = [
    (
        ('        if self.policy == "fcfs":\n            return self.running.pop()\n'),
        (
            '        if self.policy == "fcfs":\n'
            "            victim = self.running[-1]\n"
            "            lengths = [request.num_tokens for request in self.running]\n"
            "            del self.running[lengths.index(victim.num_tokens)]\n"
            "            return victim\n"
        ),
    ),
]
