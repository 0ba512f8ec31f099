STORY = (
    "A learner tries four times, to be safe from an endless loop. A request that needs more victims "
    "misses the step, and they gave way for nothing."
)
CONCEPT = "One victim may not be enough: each refusal preempts one more, until the request has its slots."
EDITS = [
    (
        "            while allocate_slots(request, n) is None:\n",
        (
            "            for _ in range(4):\n"
            "                if allocate_slots(request, n) is not None:\n"
            "                    output.add(request, n)\n"
            "                    token_budget -= n\n"
            "                    break\n"
        ),
    ),
    (
        (
            "            else:\n"
            "                output.add(request, n)\n"
            "                token_budget -= n\n"
            "        return token_budget"
        ),
        "        return token_budget",
    ),
]
