STORY = (
    "A learner finds the rule unfair and lets every second step decode. It is a better policy, but not this one: "
    "its law says when a step decodes."
)
CONCEPT = "A step has prefills or decodes, never both: while prompts arrive that fit, no request decodes."
EDITS = [
    (
        ("        if not output.preempted_req_ids:\n            self._schedule_waiting(output, token_budget)\n"),
        (
            '        self.turn = not getattr(self, "turn", False)\n'
            "        if not output.preempted_req_ids and (self.turn or not self.running):\n"
            "            self._schedule_waiting(output, token_budget)\n"
        ),
    ),
]
