STORY = (
    "Who is in prefill is asked of the prompt: a victim that comes back, and is cut one token short of its output, is "
    "taken for a decode. Newcomers pass it, one after the other, and it holds its blocks meanwhile."
)
CONCEPT = "One token short of what it was admitted with, a request is in prefill: no newcomer passes it."
EDITS = [
    (
        "if in_prefill(request)]",
        """if request.num_tokens - request.num_computed_tokens > 1
            or request.num_computed_tokens < request.num_prompt_tokens]""",
    ),
]
