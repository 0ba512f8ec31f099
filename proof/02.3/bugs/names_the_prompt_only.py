STORY = (
    "Tokens are cut out of the prompt, while blocks are counted over prompt and output. Blocks of output are "
    "named after too few tokens, and two different answers get the same name."
)
CONCEPT = "What was generated counts like the prompt: blocks of it have names too."
EDITS = [
    ("request.all_token_ids[", "request.prompt_token_ids["),
]
