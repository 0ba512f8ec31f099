STORY = (
    "The lookup takes as many blocks as the request has. A prompt that was cached to its last token has "
    "nothing left to compute, so there are no logits to sample from, as in nano-vllm's issue 144."
)
CONCEPT = "The last token is always computed: a hit ends at least one token before the end."
EDITS = [
    ("(request.num_tokens - 1) // self.block_size", "request.num_tokens // self.block_size"),
]
