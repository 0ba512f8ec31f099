STORY = "A learner takes the victim out by its priority. The first one of that priority leaves running in its place."
CONCEPT = "The victim is the least urgent of those that run, and the others keep their order."
EDITS = [
    (
        ("        self.running.remove(victim)\n"),
        ("        del self.running[[request.priority for request in self.running].index(victim.priority)]\n"),
    ),
]
