STORY = "nano-vllm calls a victim WAITING. Its second lookup in the prefix cache is then counted as a newcomer's."
CONCEPT = "When blocks run out, the youngest gives way; the others decode as if it had never been there."
BASE = "by_index"
EDITS = [
    (
        "        self._preempt(youngest)\n",
        ("        self._preempt(youngest)\n        youngest.status = RequestStatus.WAITING\n"),
    ),
    (
        "from mini_vllm.scheduler import SchedulerOutput\n",
        ("from mini_vllm.request import RequestStatus\nfrom mini_vllm.scheduler import SchedulerOutput\n"),
    ),
]
