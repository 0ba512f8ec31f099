STORY = "A learner notes the finished request for each token of the step. It is reported more than once."
CONCEPT = "Nothing counts after the token that ends the request."
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
            "            if request.is_finished:\n"
            "                finished = list(dict.fromkeys(finished))\n"
            "                self.kv_cache_manager.free(request)\n"
            "                del self._requests[request_id]\n"
        ),
    ),
]
