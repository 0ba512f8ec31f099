STORY = (
    "A learner measures whoever is admitted by its prompt. A victim's own output is computed as if it were "
    "decoded, a token a step."
)
CONCEPT = "A request that comes back prefills all that it knows, output included: the others wait for it."
EDITS = [
    (
        "            n = self._chunk_size(request, num_computed, request.num_tokens)\n",
        "            n = self._chunk_size(request, num_computed, request.num_prompt_tokens - num_computed)\n",
    ),
]
