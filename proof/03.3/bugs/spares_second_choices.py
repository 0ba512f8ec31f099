STORY = "A learner spares the second choice of a prompt, since its twin has its blocks. The one before it gives way."
CONCEPT = "The place in running decides: not a request's past, not what is left to do, not what it would give back."
EDITS = [
    (
        "            return self.running.pop()\n",
        (
            "            i = next((i for i, each in reversed(list(enumerate(self.running))) if not "
            "each.choice_index), -1)\n"
            "            return self.running.pop(i)\n"
        ),
    ),
]
