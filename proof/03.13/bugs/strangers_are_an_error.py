STORY = "Who is to be dropped is thought to be in the step; most victims are not."
CONCEPT = "Most victims were not in the step: to drop one changes nothing and gives nothing back."
EDITS = [
    (
        "pop(request.request_id, 0)",
        "pop(request.request_id)",
    ),
]
