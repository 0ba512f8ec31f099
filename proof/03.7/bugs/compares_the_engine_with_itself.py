STORY = (
    "What is expected comes out of the engine: its output is compared with what was sampled for it. Both are wrong "
    "in the same way."
)
CONCEPT = "A schedule may cost time, never a token: let a model say something else at every place."
EDITS = [
    (
        """        expected = alone(request, run.num_slots + 1)
""",
        """        expected = list(run.said[request])
""",
    ),
]
