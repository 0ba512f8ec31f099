STORY = (
    "A learner notes at admission whom it cut, and clears the note when that one has gone on. After the second "
    "chunk a prompt is a row among the decodes."
)
CONCEPT = "A prompt longer than the budget is cut; no request is admitted or decodes until its end is computed."
EDITS = [
    (
        "prefills = [request for request in self.running if in_prefill(request)]",
        (
            "prefills = [request for request in self.running if request is getattr(self, 'cut', None)]\n"
            "        self.cut = None"
        ),
    ),
    (
        "  # the first of its step may be cut",
        "\n                self.cut = request",
    ),
]
