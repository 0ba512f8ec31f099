STORY = "A learner writes the loop and forgets that somebody has to give way. The answer stays None."
CONCEPT = "When blocks run out, the youngest gives way; the others decode as if it had never been there."
EDITS = [
    (
        (
            "        while scheduler.kv_cache_manager.allocate_slots(request, n) is None:\n"
            "            victim = scheduler._pop_victim()\n"
            "            scheduler._preempt(victim)\n"
            "            output.preempted_req_ids.append(victim.request_id)\n"
            "            token_budget += output.drop(victim)\n"
            "            if victim is request:\n"
            "                break\n"
            "        else:\n"
            "            output.add(request, n)\n"
            "            token_budget -= n\n"
        ),
        (
            "        while scheduler.kv_cache_manager.allocate_slots(request, n) is None:\n"
            "            continue\n"
            "        output.add(request, n)\n"
            "        token_budget -= n\n"
        ),
    ),
]
