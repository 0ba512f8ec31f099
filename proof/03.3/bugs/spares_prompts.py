STORY = (
    "A learner lets decodes give way before prompts, whose work would be lost. The last one keeps its "
    "place while it is in its prompt."
)
CONCEPT = "The place in running decides: not a request's past, not what is left to do, not what it would give back."
EDITS = [
    (
        ('        if self.policy == "fcfs":\n            return self.running.pop()\n'),
        (
            '        if self.policy == "fcfs":\n'
            "            speaking = [request for request in self.running if request.output_token_ids] or self.running\n"
            "            victim = speaking[-1]\n"
            "            self.running.remove(victim)\n"
            "            return victim\n"
        ),
    ),
]
