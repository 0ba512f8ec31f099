STORY = (
    "A learner preempts for a head without blocks, since prefills come first. The youngest lose what they have "
    "computed to whoever is new."
)
CONCEPT = "A queue is no reason to stand still: if no waiting request can be admitted, all running ones decode."
EDITS = [
    (
        ("            if not self._may_admit(request, num_computed + n, computed_blocks):\n                break\n"),
        (
            "            while not self._may_admit(request, num_computed + n, computed_blocks) and self.running:\n"
            "                victim = self.running.pop()\n"
            "                self.waiting.popleft()\n"
            "                self._preempt(victim)\n"
            "                self.waiting.appendleft(request)\n"
            "                output.preempted_req_ids.append(victim.request_id)\n"
            "                output.drop(victim)\n"
        ),
    ),
]
