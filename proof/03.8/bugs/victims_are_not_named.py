STORY = "A learner does not note who was preempted. The runner keeps the state of a request that is gone."
CONCEPT = "When blocks run out, the youngest gives way; the others decode as if it had never been there."
BASE = "own_loop"
EDITS = [
    (
        "                output.preempted_req_ids.append(victim.request_id)\n",
        "",
    ),
]
