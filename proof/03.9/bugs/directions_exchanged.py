STORY = "A learner mixes up the directions: out is to the CPU."
CONCEPT = "Each pair of blocks is one copy, in its own direction; preempted requests are another count."
EDITS = [
    (
        ("            num_swapped_out_blocks=len(plan.swap_out),\n"),
        ("            num_swapped_out_blocks=len(plan.swap_in),\n"),
    ),
    (
        ("            num_swapped_in_blocks=len(plan.swap_in),\n"),
        ("            num_swapped_in_blocks=len(plan.swap_out),\n"),
    ),
]
