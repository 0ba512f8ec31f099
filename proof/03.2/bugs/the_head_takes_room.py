STORY = (
    "A learner lets the head of the queue preempt the last of running when it does not fit. Who has begun "
    "is thrown out for one who has not."
)
CONCEPT = "A newcomer gets free blocks only: no running request is preempted for it."
EDITS = [
    (
        " or not self._may_admit(request, num_computed + n, computed_blocks)",
        "",
    ),
    (
        (
            "            if kv.allocate_slots(request, n, computed_blocks) is None:\n"
            "                break\n"
            "            self._admit"
        ),
        (
            "            if kv.allocate_slots(request, n, computed_blocks) is None:\n"
            "                if len(self.running) > 1:\n"
            "                    victim = self._pop_victim()\n"
            "                    output.drop(victim)\n"
            "                    self._preempt(victim)\n"
            "                    output.preempted_req_ids.append(victim.request_id)\n"
            "                break\n"
            "            self._admit"
        ),
    ),
]
