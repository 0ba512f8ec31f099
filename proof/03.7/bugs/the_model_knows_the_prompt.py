STORY = (
    "The model reads the tokens off the request, and not out of the blocks. Blocks that nobody wrote do not disturb it."
)
CONCEPT = "A schedule may cost time, never a token: let a model say something else at every place."
EDITS = [
    (
        """[self.slots.get(slot, 0) for slot in self.slots_of(request, request.num_computed_tokens + n)]
""",
        """request.all_token_ids[: request.num_computed_tokens + n]
""",
    ),
]
