STORY = (
    "A learner takes None in the first loop for the end of the loop, as in the second. The last request stays in "
    "running with its old blocks and gets no further."
)
CONCEPT = "If no running request is younger, a request gives way itself; those before it keep what they have."
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
            "                break\n"
            "            output.add(request, n)\n"
            "            token_budget -= n\n"
            "        return token_budget\n"
        ),
    ),
]
