STORY = (
    "A learner looks whether the token is an end before appending it. The finish is seen a step late, or the last"
    " token is missing."
)
CONCEPT = "A request that ends leaves at once: it is not in running, its blocks are free, and so is its id."
EDITS = [
    (
        (
            "                request.append_output_token(token_id)\n"
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
            "                    break\n"
            "                request.append_output_token(token_id)\n"
        ),
    ),
]
