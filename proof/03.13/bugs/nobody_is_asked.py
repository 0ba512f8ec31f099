STORY = "03.2 is copied as it was: slots are taken and _may_admit is never asked."
CONCEPT = "Admission asks for more than slots: reservation and watermark may refuse, and then no request comes in."
EDITS = [
    (
        "            if n > token_budget or not self._may_admit(request, num_computed + n, computed_blocks):\n",
        "            if n > token_budget:\n",
    ),
]
