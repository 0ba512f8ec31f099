STORY = (
    "A learner looks for victims behind the request only. When there is none, it is passed over and keeps its blocks."
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
            "            while allocate_slots(request, n) is None:\n"
            "                if self.running[-1] is request:\n"
            "                    break\n"
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
    ),
]
