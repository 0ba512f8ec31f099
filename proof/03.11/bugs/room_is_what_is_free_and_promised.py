STORY = "The old block of a promised copy is counted as room. It is still held by the others."
CONCEPT = "None is an answer to one request: what the others of the step were promised stays promised."
EDITS = [
    (
        "            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:\n                return None\n",
        "            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks + len(self._copies):\n                return None\n            if len(shared) > self.num_free_blocks:\n                return None\n",
    )
]
