STORY = "max_num_seqs is compared with how many ids were admitted and not yet preempted; one that was aborted is never taken off."
CONCEPT = "After any calls every step is the one that the rules make of them, and nothing that was given has changed."
EDITS = [
    (
        "while token_budget > 0 and len(self.running) < self.max_num_seqs",
        "self.places = {r for r in vars(self).get('places', ()) if r.status.name in ('RUNNING', 'FINISHED_ABORTED')}\n        while token_budget > 0 and len(self.places) < self.max_num_seqs",
    ),
    (
        "            output.add(request, n)\n",
        "            output.add(request, n)\n            self.places.add(request)\n",
    ),
]
