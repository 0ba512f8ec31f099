STORY = "A request that did not fit into main memory is noted as too large. Later there may be room, for it or for another one of its name."
CONCEPT = "Whether there is room, and which way is cheaper, is asked again each time."
EDITS = [
    (
        "        pairs = self.pool.store(request_id, block_ids)\n        if pairs is not None:\n",
        "        too_large = vars(self).setdefault('too_large', set())\n        pairs = None if request_id in too_large else self.pool.store(request_id, block_ids)\n        if pairs is None:\n            too_large.add(request_id)\n        if pairs is not None:\n",
    )
]
