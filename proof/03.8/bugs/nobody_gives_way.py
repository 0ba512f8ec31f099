STORY = (
    "A learner takes None for the end of the loop, as in admission. The request stays in running and gets no further."
)
CONCEPT = "If no request is younger, a request is preempted itself; those before it keep what they have."
BASE = "own_loop"
EDITS = [
    (
        (
            "            while self.kv_cache_manager.allocate_slots(request, n) is None:\n"
            "                victim = self._pop_victim()\n"
            "                self._preempt(victim)\n"
            "                output.preempted_req_ids.append(victim.request_id)\n"
            "                token_budget += output.drop(victim)\n"
            "                if victim is request:\n"
            "                    break\n"
            "            else:\n"
            "                output.add(request, n)\n"
            "                token_budget -= n\n"
        ),
        (
            "            if self.kv_cache_manager.allocate_slots(request, n) is None:\n"
            "                if self.running[-1] is request:\n"
            "                    continue\n"
            "                victim = self._pop_victim()\n"
            "                self._preempt(victim)\n"
            "                output.preempted_req_ids.append(victim.request_id)\n"
            "                self.kv_cache_manager.allocate_slots(request, n)\n"
            "            output.add(request, n)\n"
            "            token_budget -= n\n"
        ),
    ),
]
