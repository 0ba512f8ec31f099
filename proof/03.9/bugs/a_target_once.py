STORY = (
    "The copies are counted by the blocks that they fill. A block that is given away again in the same step is "
    "filled twice, and counted once."
)
CONCEPT = "Each pair of blocks is one copy, in its own direction; preempted requests are another count."
EDITS = [
    (
        "            num_copied_blocks=len(plan.copy),\n",
        "            num_copied_blocks=len({new for _, new in plan.copy}),\n",
    ),
]
