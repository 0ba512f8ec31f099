STORY = "_may_admit hears of the chunk and not how far it reaches: with a hit, too little room is looked for."
CONCEPT = "Admission asks how far the first chunk reaches, hit included, and names the blocks of the hit."
EDITS = [
    (
        "self._may_admit(request, num_computed + n, computed_blocks)",
        "self._may_admit(request, n, computed_blocks)",
    ),
]
