STORY = "Every admission counts in prefix_cache_stats: a busy server seems to share prompts with itself."
CONCEPT = "A first admission and one after a preemption are counted apart; the sender hears of the first."
EDITS = [
    (
        "        stats = self.preempted_prefix_cache_stats\n",
        "        stats = self.prefix_cache_stats\n",
    ),
]
