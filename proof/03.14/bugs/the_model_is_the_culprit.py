STORY = "What was sampled is taken in by update_from_output, says the author. It took in what it was given."
CONCEPT = "The damage is late and elsewhere: go back to the first record that cannot be."
EDITS = [
    (
        '"mini_vllm.scheduler:Scheduler.needs_sample"',
        '"mini_vllm.scheduler:Scheduler.update_from_output"',
    ),
]
