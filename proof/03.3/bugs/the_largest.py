STORY = (
    "A learner takes whoever holds most blocks, to be done with one victim. The longest request is thrown out "
    "whenever blocks are short, and may never end."
)
CONCEPT = (
    "The youngest gives way: the last that was admitted, whatever the size, the time or the priority of the others."
)
EDITS = [
    (
        "return self.running.pop()",
        (
            "victim = max(self.running, key=lambda request: request.num_tokens)\n"
            "            self.running.remove(victim)\n"
            "            return victim"
        ),
    ),
]
