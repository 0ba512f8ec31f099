STORY = "A learner returns when somebody finishes. Those behind it lose the step that they computed."
CONCEPT = "A request that ends changes nothing for its neighbours: each gets its token and keeps its order."
EDITS = [
    (
        (
            "                if request.maybe_finish():\n"
            "                    finished.append(request)\n"
            "                    self.kv_cache_manager.free(request)\n"
            "                    del self._requests[request_id]\n"
            "                    break\n"
        ),
        (
            "                if request.maybe_finish():\n"
            "                    finished.append(request)\n"
            "                    self.kv_cache_manager.free(request)\n"
            "                    del self._requests[request_id]\n"
            "                    self.running.remove(request)\n"
            "                    return finished\n"
        ),
    ),
]
