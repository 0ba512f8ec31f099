STORY = "The status is set to RUNNING before it is asked: every admission is one after a preemption."
CONCEPT = "A first admission and one after a preemption are counted apart; the sender hears of the first."
EDITS = [
    (
        "        stats = self.preempted_prefix_cache_stats\n",
        "        stats = self.preempted_prefix_cache_stats\n        request.status = RequestStatus.RUNNING\n",
    ),
]
