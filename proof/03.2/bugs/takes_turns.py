STORY = (
    "A learner begins with another running request in each step, so that all share a short budget. The "
    "order of admission decides, and the last to be served is the last to give way."
)
CONCEPT = "In any run a step follows from the two lists, the free blocks and the budget, and from no step before."
EDITS = [
    (
        "self._schedule_running(list(self.running), output,",
        "self._schedule_running(self._in_turn(), output,",
    ),
    (
        ('    """What is not defined here is the reference\'s."""\n'),
        (
            '    """What is not defined here is the reference\'s."""\n'
            "\n"
            "    def _in_turn(self):\n"
            '        self._turn = getattr(self, "_turn", -1) + 1\n'
            "        first = self._turn % max(1, len(self.running))\n"
            "        return self.running[first:] + self.running[:first]\n"
        ),
    ),
]
