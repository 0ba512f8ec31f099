STORY = "A learner writes the loop and forgets that somebody has to give way. The answer stays None."
CONCEPT = "When blocks run out, the youngest gives way; the others decode as if it had never been there."
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
            "            while self.kv_cache_manager.allocate_slots(request, n) is None:\n"
            "                continue\n"
            "            output.add(request, n)\n"
            "            token_budget -= n\n"
        ),
    ),
]
