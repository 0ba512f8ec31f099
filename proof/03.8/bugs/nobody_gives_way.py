STORY = (
    "A learner takes None for the end of the loop, as in admission. The request stays in running and gets no further."
)
CONCEPT = "If nobody is younger, a request gives way itself; those before it keep what they have."
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
            "        if scheduler.kv_cache_manager.allocate_slots(request, n) is None:\n"
            "            if scheduler.running[-1] is request:\n"
            "                continue\n"
            "            victim = scheduler._pop_victim()\n"
            "            scheduler._preempt(victim)\n"
            "            output.preempted_req_ids.append(victim.request_id)\n"
            "            scheduler.kv_cache_manager.allocate_slots(request, n)\n"
            "        output.add(request, n)\n"
            "        token_budget -= n\n"
        ),
    ),
]
