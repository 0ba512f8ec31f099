STORY = (
    "A learner goes over a copy of running and does not look who has been preempted meanwhile. The victim gets "
    "blocks and a row in the batch while it waits."
)
CONCEPT = "When blocks run out, the youngest gives way; the others compute as if it had never been there."
EDITS = [
    (
        ("            if request.status is preempted:  # a victim of this very loop\n                continue\n"),
        "",
    ),
]
