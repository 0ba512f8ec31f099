STORY = "The number of tokens is compared, not the tokens. All schedulers give as many as were asked for."
CONCEPT = "What was swapped comes back to the last slot: let someone give way in the middle of a block."
EDITS = [
    ("request.output_token_ids, equals=expected)", "len(request.output_token_ids), equals=len(expected))"),
]
