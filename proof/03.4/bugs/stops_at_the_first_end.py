STORY = "A learner returns when somebody finishes. Those behind it lose the step that they computed."
CONCEPT = "Who ends and who stays does not depend on the place: neighbours all get their token."
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
