STORY = (
    "A learner returns from the loop after a preemption. Those between the one that asked and the victim miss the step."
)
CONCEPT = "When blocks run out, the youngest gives way; the others compute as if it had never been there."
EDITS = [
    (
        ("            else:\n                output.add(request, n)\n                token_budget -= n\n"),
        (
            "            else:\n"
            "                output.add(request, n)\n"
            "                token_budget -= n\n"
            "                if output.preempted_req_ids:\n"
            "                    break\n"
        ),
    ),
]
