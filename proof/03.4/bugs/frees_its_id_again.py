STORY = "A learner frees a request that has ended once more. Tables are kept by id, so the next one of the id loses its blocks."
CONCEPT = (
    "A late answer changes neither the request that was in the step nor the next one of its id, which may run already."
)
EDITS = [
    (
        "            if request.status is not RequestStatus.RUNNING:  # finished from outside while the model ran\n                continue\n",
        "            if request.status is not RequestStatus.RUNNING:  # finished from outside while the model ran\n                self.kv_cache_manager.free(request)\n                continue\n",
    ),
]
