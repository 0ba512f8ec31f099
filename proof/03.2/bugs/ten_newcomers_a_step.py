STORY = (
    "A learner admits ten requests a step at most, so that the step stays short. The others wait though there is room."
)
CONCEPT = "All that wait are admitted in one step if budget, blocks and max_num_seqs have room for them."
EDITS = [
    (
        "            self._admit(request, num_computed)\n            output.add(request, n)\n            token_budget -= n\n",
        "            self._admit(request, num_computed)\n            output.add(request, n)\n            token_budget -= n\n            if len(self.running) >= 10:\n                break\n",
    )
]
