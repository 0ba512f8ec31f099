STORY = (
    "A learner counts the output to the prompt, since both are computed again. The answer reports a "
    "longer prompt than was sent."
)
CONCEPT = "A victim stays what it is: its limits, its salt, its number, its time and its first hit."
EDITS = [
    (
        "        self.kv_cache_manager.free(request)\n",
        ("        self.kv_cache_manager.free(request)\n        request.num_prompt_tokens = request.num_tokens\n"),
    ),
]
