STORY = "A learner counts a victim among the tokens of the step. When a cut prompt gives way, the budget is one short."
CONCEPT = (
    "A cut prompt that finds no block is preempted, and the running requests decode; it does not come back at once."
)
EDITS = [
    (
        "            self._schedule_running(list(self.running), output, token_budget)\n",
        "            token_budget -= len(output.preempted_req_ids)\n"
        "            self._schedule_running(list(self.running), output, token_budget)\n",
    )
]
