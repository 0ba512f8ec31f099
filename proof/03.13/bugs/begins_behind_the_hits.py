STORY = "The counter is set to the hits of the prefix cache; what came from elsewhere is computed again."
CONCEPT = (
    "The statistics are of the prefix cache: what came from elsewhere is no hit, and without a cache there is none."
)
EDITS = [
    (
        "        request.num_computed_tokens = num_computed_tokens\n",
        "        request.num_computed_tokens = num_hits\n",
    ),
]
