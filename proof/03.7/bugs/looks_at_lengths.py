STORY = "The outputs are compared by their lengths. The right number of wrong tokens will do."
CONCEPT = "A schedule may cost time, never a token: let a model say something else at every place."
EDITS = [
    (
        """        run.see(f"what {request.request_id} has said", request.output_token_ids, equals=run.said[request])
""",
        "",
    ),
    (
        """        run.see(f"the output of {request.request_id}", request.output_token_ids, equals=expected)
""",
        """        if request.is_finished and request.finish_reason == "length":
            run.see(f"the output of {request.request_id}", len(request.output_token_ids), equals=len(expected))
""",
    ),
]
