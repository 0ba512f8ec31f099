STORY = "A learner names the victim and leaves it where it is. It stands in both lists."
CONCEPT = "The victim is the least urgent of those that run, and the others keep their order."
EDITS = [
    (
        ("        self.running.remove(victim)\n"),
        "",
    ),
]
