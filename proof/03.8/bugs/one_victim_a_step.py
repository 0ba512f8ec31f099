STORY = (
    "A learner preempts once and thinks that it must be enough for the step. The second request without a slot "
    "is passed over."
)
CONCEPT = "Each one that finds no slot costs one victim, so a step may have several."
BASE = "own_loop"
EDITS = [
    (
        "                victim = self._pop_victim()\n",
        (
            "                if output.preempted_req_ids:\n"
            "                    break\n"
            "                victim = self._pop_victim()\n"
        ),
    ),
]
