STORY = "Both prices are rounded to microseconds before they are compared. For short contexts they are equal, then."
CONCEPT = "Which way is cheaper depends on the figures and the number of tokens alone, to the last digit."
EDITS = [
    (
        "        return self.swap(num_tokens) < self.recompute(num_tokens)\n",
        "        return round(self.swap(num_tokens), 6) < round(self.recompute(num_tokens), 6)\n",
    )
]
