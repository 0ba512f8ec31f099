STORY = "A learner preempts once and asks once more. If that is not enough, the request computes without slots."
CONCEPT = "One victim may not be enough: each refusal preempts one more, until the request has its slots."
EDITS = [
    (
        (
            "            while allocate_slots(request, n) is None:\n"
            "                victim = self._pop_victim()\n"
            "                self._preempt(victim)\n"
            "                output.preempted_req_ids.append(victim.request_id)\n"
            "                token_budget += output.drop(victim)\n"
            "                if victim is request:\n"
            "                    break\n"
            "            else:\n"
            "                output.add(request, n)\n"
            "                token_budget -= n\n"
            "        return token_budget\n"
        ),
        (
            "            if allocate_slots(request, n) is None:\n"
            "                victim = self._pop_victim()\n"
            "                self._preempt(victim)\n"
            "                output.preempted_req_ids.append(victim.request_id)\n"
            "                if victim is request:\n"
            "                    continue\n"
            "                allocate_slots(request, n)\n"
            "            output.add(request, n)\n"
            "            token_budget -= n\n"
            "        return token_budget\n"
        ),
    ),
]
