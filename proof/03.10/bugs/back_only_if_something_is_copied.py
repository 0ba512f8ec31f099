STORY = "A learner looks only at requests with pairs; who found everything on the device keeps its CPU blocks."
CONCEPT = "A request that is back needs no main memory, also where nothing had to be copied in."
EDITS = [
    (
        "            self._loading[request_id] = self.pool.fetch(request_id, block_ids, start)\n",
        (
            "            pairs = self.pool.fetch(request_id, block_ids, start)\n"
            "            if pairs:\n"
            "                self._loading[request_id] = pairs\n"
        ),
    ),
]
