STORY = "A learner lets a prompt of one token in where a charged hit has used up more than the budget."
CONCEPT = "A hit is charged once, on admission, and cuts no prompt: alone, a prompt is cut by what it computes."
EDITS = [
    (
        "        while token_budget > 0 and len(self.running) < self.max_num_seqs:\n"
        "            request = self._next_waiting()\n",
        "        while len(self.running) < self.max_num_seqs:\n"
        "            rest = self.max_num_batched_tokens - output.total_num_scheduled_tokens\n"
        "            request = self._next_waiting()\n"
        "            if token_budget <= 0 and not (request and request.num_tokens == 1 <= rest):\n"
        "                break\n"
        "            token_budget = max(token_budget, 1)\n",
    ),
]
