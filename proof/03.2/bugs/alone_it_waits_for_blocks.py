STORY = "A learner leaves a request that runs alone in its place, since nobody profits from its blocks. It holds them and stands still."
CONCEPT = "A request that runs alone is preempted itself when blocks are short, and that step admits no request."
EDITS = [
    (
        "            while allocate_slots(request, n) is None:\n",
        "            while allocate_slots(request, n) is None:\n                if self.running == [request]:\n                    break\n",
    )
]
