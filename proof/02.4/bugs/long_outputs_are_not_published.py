STORY = "What is published ends eight tokens behind the prompt; a long answer is not found when the talk goes on."
CONCEPT = "What was generated is published like the prompt, when slots for a block's last token are given."
EDITS = [("num_tokens // block_size\n", "min(num_tokens, request.num_prompt_tokens + 8) // block_size\n")]
