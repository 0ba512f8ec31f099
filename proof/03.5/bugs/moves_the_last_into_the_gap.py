STORY = (
    "A learner fills the gap that the victim leaves with the last one, which costs less. The others are "
    "no longer in order of admission."
)
CONCEPT = "The victim is the least urgent of those that run, and the others keep their order."
EDITS = [
    (
        ("        self.running.remove(victim)\n"),
        (
            "        last = self.running.pop()\n"
            "        if last is not victim:\n"
            "            self.running[self.running.index(victim)] = last\n"
        ),
    ),
]
