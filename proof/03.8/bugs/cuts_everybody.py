STORY = (
    "A learner cuts whatever is left of the budget out of the next prompt, as V1 does. Prompts that would fit "
    "whole in the next step take two."
)
CONCEPT = "Prompts share a step while they fit whole; the first that does not is deferred to the next, and not cut."
EDITS = [
    (
        ("                if output.num_scheduled_tokens:\n                    break\n"),
        "",
    ),
]
