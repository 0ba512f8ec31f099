STORY = "A learner swaps only if it saves at least a hundredth of the time. The rule is: if it takes less."
CONCEPT = "Which way is cheaper depends on the figures and the number of tokens alone, to the last digit."
EDITS = [
    (
        "        return self.swap(num_tokens) < self.recompute(num_tokens)\n",
        "        return self.swap(num_tokens) < 0.99 * self.recompute(num_tokens)\n",
    )
]
