STORY = "A learner compares max_tokens and the end token itself. The longest a model can take is forgotten."
CONCEPT = "A request ends when it is as long as the model allows, even if max_tokens leaves more."
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
            "                if token_id in request.stop_token_ids or len(request.output_token_ids) >= request.max_tokens:\n"
            "                    reason = RequestStatus.FINISHED_LENGTH\n"
            "                    if token_id in request.stop_token_ids:\n"
            "                        reason = RequestStatus.FINISHED_STOPPED\n"
            "                    request.status = reason\n"
            "                    finished.append(request)\n"
            "                    self.kv_cache_manager.free(request)\n"
            "                    del self._requests[request_id]\n"
            "                    break\n"
        ),
    ),
]
