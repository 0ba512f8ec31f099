"""It knows victims by the ids that it noted, and asks nobody for a status."""

BASE = "all_in_one"
EDITS = [
    (
        "            if request.status is RequestStatus.PREEMPTED or n <= 0:\n",
        "            if request.request_id in preempted or n <= 0:\n",
    ),
    (
        "            while blocks is None and request.status is RequestStatus.RUNNING:\n",
        "            while blocks is None and request.request_id not in preempted:\n",
    ),
    (
        "                if request.status is RequestStatus.RUNNING:\n",
        "                if victim is not request:\n",
    ),
]
