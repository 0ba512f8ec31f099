STORY = (
    "A learner writes the rule for the end as far as it is known: the end token and the two limits. Stop "
    "tokens that the caller gave are said, and the text goes on."
)
CONCEPT = "Nothing counts after the token that ends the request."
EDITS = [
    (
        "                if request.maybe_finish():\n",
        (
            "                is_end = token_id in request.eos_token_ids and not request.sampling_params.ignore_eos\n"
            "                is_long = len(request.output_token_ids) >= request.max_tokens or request.num_tokens "
            ">= request.max_model_len\n"
            "                if (is_end or is_long) and request.maybe_finish():\n"
        ),
    ),
]
