STORY = (
    "A request is looked at when it has left. It has no table any more, so there is nothing to read and "
    "nothing to complain of."
)
CONCEPT = "A hit that is false gives wrong answers: write down whose content a block has, and compare."
EDITS = [
    (
        """            self.compute(request, end)
            self.look()
""",
        """            self.compute(request, end)
            conserved(kv, self.running)
""",
    ),
    (
        """        self.read(request, ids(hits), num_hit)
""",
        "",
    ),
    (
        """        for request in self.running:
            self.read(request, self.kv.get_block_ids(request.request_id), request.num_computed_tokens)
""",
        """        if not self.running:  # once is enough: when everybody is done
            for request in self.running:
                self.read(request, self.kv.get_block_ids(request.request_id), request.num_computed_tokens)
""",
    ),
]
