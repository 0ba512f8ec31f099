STORY = "A failed step withdraws the names of the prompt's blocks. The output that a victim had computed was to come in, too, and is found."
CONCEPT = "Blocks that were to be filled are not: after a failed step no request may find them in the prefix cache."
EDITS = [
    (
        "            for request, start, end in self._loads.values():\n",
        "            for request, start, end in self._loads.values():\n                end = min(end, request.num_prompt_tokens)\n",
    )
]
