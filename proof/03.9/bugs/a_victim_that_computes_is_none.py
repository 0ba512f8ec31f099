STORY = "A learner leaves out the victims that are in the step, as those who came back at once."
CONCEPT = "Each pair of blocks is one copy, in its own direction; preempted requests are another count."
EDITS = [
    (
        "            num_preempted_reqs=len(output.preempted_req_ids),\n",
        "            num_preempted_reqs=len(set(output.preempted_req_ids) - output.num_scheduled_tokens.keys()),\n",
    ),
]
