STORY = "The keys are multiplied by a scale of 1. In bfloat16 this writes each NaN anew, with other bits."
CONCEPT = "What is stored is what was computed, bit for bit, whatever the dtype."
EDITS = [
    (
        """= key[token]
""",
        """= key[token] * 1.0
""",
    ),
]
