STORY = "The model says 1 at every place. Words that are said at the wrong place are the same words."
CONCEPT = "A victim comes back in pieces, and says what it would have said: force it, and compare."
EDITS = [
    (
        "    return 1 + sum(place * token for place, token in enumerate(tokens, start=1)) % 9973\n",
        "    return 1\n",
    ),
    (
        '        for request in self.added:\n            self.see(f"what {request.request_id} has said"',
        '        for request in []:\n            self.see(f"what {request.request_id} has said"',
    ),
]
