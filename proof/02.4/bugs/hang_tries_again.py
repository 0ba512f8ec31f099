STORY = (
    "When there is no room, the call tries again, in the hope that somebody has finished. Nobody can while it "
    "tries, so it calls itself until the stack is full."
)
CONCEPT = "What fits exactly is given; one block too few gives None, and nothing has changed."
EDITS = [
    (
        """            if num_needed > num_free:
                return None
""",
        """            if num_needed > num_free:
                return self.allocate_slots(request, num_new_tokens, computed_blocks)
""",
    ),
]
