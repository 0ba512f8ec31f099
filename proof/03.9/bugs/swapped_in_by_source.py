STORY = "A learner turns the pairs into a dict, which has each source once."
CONCEPT = "Each pair of blocks is one copy, in its own direction; preempted requests are another count."
EDITS = [
    (
        "            num_swapped_in_blocks=len(plan.swap_in),\n",
        "            num_swapped_in_blocks=len(dict(plan.swap_in)),\n",
    ),
]
