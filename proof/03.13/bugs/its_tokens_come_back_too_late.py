STORY = "The budget is added up at the end of the loop, so newcomers would get it: in a step that admits nobody."
CONCEPT = "Under priority the victim may be in this step already: it leaves the step, and those behind get its tokens."
EDITS = [
    (
        "                token_budget += output.drop(victim)\n",
        "                self._late = getattr(self, '_late', 0) + output.drop(victim)\n",
    ),
    (
        "        return token_budget\n",
        "        token_budget += getattr(self, '_late', 0)\n        self._late = 0\n        return token_budget\n",
    ),
]
