STORY = "A learner lets the one of those behind give way that holds most blocks, since one victim may then be enough."
CONCEPT = "When blocks run out, the youngest gives way; the others compute as if it had never been there."
EDITS = [
    (
        ("                victim = self._pop_victim()\n"),
        (
            "                behind = self.running[self.running.index(request) :]\n"
            "                victim = max(behind, key=lambda each: (each.num_computed_tokens, behind.index(each)))\n"
            "                self.running.remove(victim)\n"
        ),
    ),
]
