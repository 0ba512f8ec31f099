STORY = "The number of words is compared, and not the words."
CONCEPT = "A victim comes back in pieces, and says what it would have said: force it, and compare."
EDITS = [
    (
        'self.see(f"the output of {request.request_id}", request.output_token_ids, equals=wanted)',
        'self.see("the output", len(request.output_token_ids), equals=len(wanted))',
    ),
    (
        "request.output_token_ids, equals=self.said[request])",
        "len(request.output_token_ids), len(request.output_token_ids))",
    ),
]
