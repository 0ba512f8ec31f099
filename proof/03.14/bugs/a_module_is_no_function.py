STORY = "The module is right, and no function is named."
CONCEPT = "The damage is late and elsewhere: go back to the first record that cannot be."
EDITS = [
    (
        '"mini_vllm.scheduler:Scheduler.needs_sample"',
        '"mini_vllm.scheduler"',
    ),
]
