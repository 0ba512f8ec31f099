STORY = (
    "Where the answer is None the promised copies are withdrawn: all of them, those of other requests of the step too."
)
CONCEPT = "None is an answer to one request: what the others of the step were promised stays promised."
EDITS = [
    (
        "            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:\n                return None\n",
        "            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:\n                self._copies.clear()\n                return None\n",
    )
]
