STORY = (
    "The limit is taken from the prompt, as for a request that comes for the first time. One that was "
    "preempted finds its prompt and computes its whole output again."
)
CONCEPT = "A request that comes back finds its output as well as its prompt."
EDITS = [
    ("(request.num_tokens - 1)", "(request.num_prompt_tokens - 1)"),
]
