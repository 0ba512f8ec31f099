STORY = (
    "A learner empties everything behind the request that lacks a block, so that it need not ask again. "
    "Most of them could have gone on."
)
CONCEPT = "When blocks run out, the youngest gives way; the others compute as if it had never been there."
EDITS = [
    (
        ("            while allocate_slots(request, n) is None:\n"),
        (
            "            while allocate_slots(request, n) is None:\n"
            "                while self.running[-1] is not request and len(self.running) > 1:\n"
            "                    extra = self._pop_victim()\n"
            "                    self._preempt(extra)\n"
            "                    output.preempted_req_ids.append(extra.request_id)\n"
            "                if allocate_slots(request, n) is not None:\n"
            "                    output.add(request, n)\n"
            "                    token_budget -= n\n"
            "                    break\n"
        ),
    ),
]
