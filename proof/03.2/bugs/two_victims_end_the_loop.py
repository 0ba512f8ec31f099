STORY = "A learner ends the loop after two victims, since nobody can be left. Those in the middle lose a step."
CONCEPT = "Each request without slots preempts one; those that still run behind it compute in the same step."
EDITS = [
    (
        "                output.add(request, n)\n                token_budget -= n\n        return token_budget\n",
        "                output.add(request, n)\n                token_budget -= n\n            if len(output.preempted_req_ids) >= 2:\n                break\n        return token_budget\n",
    )
]
