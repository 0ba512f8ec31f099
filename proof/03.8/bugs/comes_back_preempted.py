STORY = (
    "A learner sets RUNNING only for what was WAITING. A preempted request runs under its old status and is "
    "passed over."
)
CONCEPT = "A request that comes back prefills all that it knows, output included: the others wait for it."
EDITS = [
    (
        "            self._admit(request, num_computed)\n",
        (
            "            status = request.status\n"
            "            self._admit(request, num_computed)\n"
            "            if status is RequestStatus.PREEMPTED:\n"
            "                request.status = status\n"
        ),
    ),
    (
        "from mini_vllm.scheduler import SchedulerOutput\n",
        ("from mini_vllm.request import RequestStatus\nfrom mini_vllm.scheduler import SchedulerOutput\n"),
    ),
]
