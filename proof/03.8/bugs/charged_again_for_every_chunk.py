STORY = "With charge_cached_tokens a learner charges the hit whenever the prompt goes on, though only newcomers pay for it. Nobody fits beside its end."
CONCEPT = "A hit is charged once, on admission, and cuts no prompt: alone, a prompt is cut by what it computes."
EDITS = [
    (
        "        if not output.preempted_req_ids:\n",
        "        if self.charge_cached_tokens:\n            token_budget -= sum(r.num_cached_tokens for r in prefills if r.request_id in output.num_scheduled_tokens)\n        if not output.preempted_req_ids:\n",
    )
]
