STORY = (
    "A learner takes for a prefill who is inside its prompt. A victim that comes back and is cut in its output is left "
    "standing, and the next one is begun."
)
CONCEPT = "A request that comes back may be cut, too: even past its prompt it is in prefill until it has caught up."
EDITS = [("if in_prefill(request)]", "if request.num_computed_tokens < request.num_prompt_tokens]")]
