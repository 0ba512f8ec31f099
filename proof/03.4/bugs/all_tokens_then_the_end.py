STORY = "A learner appends the whole list and looks for the end afterwards. Text goes on after the end of the answer."
CONCEPT = "Nothing counts after the token that ends the request."
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
            "                request.append_output_token(token_id)\n"
            "            if sampled_token_ids.get(request_id) and request.maybe_finish():\n"
            "                finished.append(request)\n"
            "                self.kv_cache_manager.free(request)\n"
            "                del self._requests[request_id]\n"
        ),
    ),
]
