STORY = (
    "Each token must follow from those before it, says the author. That is also true of a request that has lost the "
    "beginning of its output, or says more than it was asked for."
)
CONCEPT = "A preempted request keeps its output: compare whole outputs with a truth from before the run."
EDITS = [
    (
        """        for request, expected in self.expected.items():
            if request.finish_reason == "abort":
                expected = expected[: len(request.output_token_ids)]
""",
        """        for request in self.expected:
            tokens = request.all_token_ids
            places = range(len(tokens) - len(request.output_token_ids), len(tokens))
            expected = [self.lab.next_token(request.request_id, tokens[:place]) for place in places]
""",
    ),
]
