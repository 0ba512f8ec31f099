STORY = "_may_admit is not told of the hit, and counts shared blocks as new."
CONCEPT = "Admission asks how far the first chunk reaches, hit included, and names the blocks of the hit."
EDITS = [
    (
        "self._may_admit(request, num_computed + n, computed_blocks)",
        "self._may_admit(request, num_computed + n, [])",
    ),
]
