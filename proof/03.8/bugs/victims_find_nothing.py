STORY = "Only newcomers are looked up in the prefix cache. A victim finds its own blocks there, if nobody took them."
CONCEPT = "After any calls every step is the one that the rules make of them, and nothing that was given has changed."
EDITS = [
    (
        "            computed_blocks, num_computed = kv.get_computed_blocks(request)\n",
        "            computed_blocks, num_computed = ([], 0) if request.num_preemptions else kv.get_computed_blocks(request)\n",
    )
]
