STORY = (
    "A learner takes one token behind for a decode. The last token of a cut prompt is computed beside the "
    "others, as V1 would."
)
CONCEPT = "A prompt longer than the budget is cut; no request is admitted or decodes until its end is computed."
EDITS = [
    (
        "if in_prefill(request)]",
        "if request.num_tokens - request.num_computed_tokens > 1]",
    ),
]
