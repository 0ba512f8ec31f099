STORY = "A learner keeps the usage by output, since a step has one. The levels are those of another moment then."
CONCEPT = "Levels are read at the call: the same output has others when the scheduler is another one by then."
EDITS = [
    (
        "        queries, hits = self._prefix_cache_totals()\n        stats",
        "        queries, hits = self._prefix_cache_totals()\n        if output is not self._output:\n            self._output, self._usage = output, scheduler.kv_cache_manager.usage\n        stats",
    ),
    (
        "            kv_cache_usage=scheduler.kv_cache_manager.usage,\n",
        "            kv_cache_usage=self._usage,\n",
    ),
    (
        "        self._queries, self._hits = self._prefix_cache_totals()\n",
        "        self._queries, self._hits = self._prefix_cache_totals()\n        self._output, self._usage = None, 0.0\n",
    ),
]
