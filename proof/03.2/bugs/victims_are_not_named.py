STORY = (
    "A learner forgets to note the victim in the output. The runner keeps its state, and a newcomer takes the "
    "freed block at once."
)
CONCEPT = "When blocks run out, the youngest gives way; the others compute as if it had never been there."
EDITS = [
    (
        ("                output.preempted_req_ids.append(victim.request_id)\n"),
        "",
    ),
]
