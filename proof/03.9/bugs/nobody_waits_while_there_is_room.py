STORY = "The level of the queue is that of those who cannot be admitted: while places are free it says 0."
CONCEPT = "After any run the figures of a step are those of that step, and to look has changed nothing."
EDITS = [
    (
        "num_waiting_reqs=len(scheduler.waiting)",
        "num_waiting_reqs=len(scheduler.waiting) if len(scheduler.running) >= scheduler.max_num_seqs or scheduler.kv_cache_manager.num_free_blocks == 0 or output.preempted_req_ids else 0",
    )
]
