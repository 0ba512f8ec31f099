STORY = (
    "A learner lets the last one go if it has the priority of the victim and many run. An earlier arrival gives way."
)
CONCEPT = "The victim is the least urgent of those that run, and the others keep their order."
EDITS = [
    (
        "        self.running.remove(victim)\n",
        (
            "        if len(self.running) > 3 and victim.priority == self.running[-1].priority:\n"
            "            victim = self.running[-1]\n"
            "        self.running.remove(victim)\n"
        ),
    ),
]
