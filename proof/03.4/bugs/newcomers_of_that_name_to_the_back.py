STORY = (
    "A learner takes a waiting request whose id has an answer for one that has had its turn, and puts it "
    "at the back. It is another one, of the same name."
)
CONCEPT = "A late answer cannot end a request a second time."
EDITS = [
    (
        ("        if finished:\n            self.running"),
        (
            "        for request in [request for request in self.waiting if request.request_id in sampled_token_ids]:\n"
            "            self.waiting.remove(request)\n"
            "            self.waiting.append(request)\n"
            "        if finished:\n"
            "            self.running"
        ),
    ),
]
