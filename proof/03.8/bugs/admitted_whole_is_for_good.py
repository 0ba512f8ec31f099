STORY = "A learner notes the ids of those that were admitted whole: they need no look any more. An id that is used again, for a prompt that is cut, is taken for a decode."
CONCEPT = "A request that comes back may be cut, too: even past its prompt it is in prefill until it has caught up."
EDITS = [
    (
        "        prefills = [request for request in self.running if in_prefill(request)]\n",
        "        whole = vars(self).setdefault('whole', set())\n        prefills = [request for request in self.running if in_prefill(request) and request.request_id not in whole]\n",
    ),
    (
        "            output.add(request, n)\n",
        "            output.add(request, n)\n            if num_computed + n == request.num_tokens:\n                vars(self).setdefault('whole', set()).add(request.request_id)\n",
    ),
]
