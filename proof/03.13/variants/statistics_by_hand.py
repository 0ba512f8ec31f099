"""The reference with other words: counts are added by hand, the loop is a generator, drop() is one expression."""

BASE = "all_in_one"
EDITS = [
    (
        "            stats.record(request.num_tokens, hits)\n",
        "            stats.requests += 1\n"
        "            stats.queries += len(request.all_token_ids)\n"
        "            stats.hits += hits\n",
    ),
    (
        "        for request in tuple(self.running):\n",
        "        for request in (each for each in [*self.running]):\n",
    ),
    (
        "        for place, other in enumerate(self.scheduled_requests):\n"
        "            if other is request:\n"
        "                del self.scheduled_requests[place]\n"
        "                return self.num_scheduled_tokens.pop(request.request_id)\n"
        "        return 0\n",
        "        self.scheduled_requests = [each for each in self.scheduled_requests if each is not request]\n"
        "        return self.num_scheduled_tokens.pop(request.request_id, 0)\n",
    ),
]
