STORY = (
    "MinivLLM's first version compares the whole prompt with the budget and pays for it, cached tokens included. "
    "A chat whose long history is cached is deferred for nothing."
)
CONCEPT = "Whether a prompt fits is asked of what must be computed: what the cache holds costs no budget."
EDITS = [
    (
        "num_charged = num_computed if self.charge_cached_tokens else 0",
        "num_charged = num_computed",
    ),
]
