STORY = "The pairs to copy are counted as a set. Two requests may copy the same two numbers out and in, and a pair of each kind is one copy."
CONCEPT = "After any run the figures of a step are those of that step, and to look has changed nothing."
EDITS = [
    (
        "num_copied_blocks=len(plan.copy)",
        "num_copied_blocks=len(set(plan.copy) - set(plan.swap_out) - set(plan.swap_in))",
    )
]
