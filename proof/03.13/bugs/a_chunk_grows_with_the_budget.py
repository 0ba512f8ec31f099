STORY = "After each victim the chunk is made anew from the larger budget, which vLLM does not: it asks for what it asked for."
CONCEPT = "Step for step, your engine decides what vLLM 0.33.0 decided."
EDITS = [
    (
        "                if victim is request:\n                    break\n",
        "                if victim is request:\n                    break\n"
        "                n = self._chunk_size(request, request.num_computed_tokens, token_budget)\n",
    ),
]
