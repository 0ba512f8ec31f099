STORY = (
    "Others were admitted while one waits, so admission must be at fault. It takes the head of the line, and so "
    "it should."
)
CONCEPT = "The damage is late and elsewhere: go back to the first record that cannot be."
EDITS = [
    (
        '"mini_vllm.scheduler:Scheduler._preempt"',
        '"mini_vllm.scheduler:Scheduler._schedule_waiting"',
    ),
]
