STORY = "A learner lets go of the CPU blocks as soon as the pairs are told."
CONCEPT = "Who is back needs the CPU pool no more, but not before the step is confirmed; who waits keeps its place."
EDITS = [
    (
        "            self._hits[request_id] = start * self.block_size\n",
        (
            "            self._hits[request_id] = start * self.block_size\n"
            "            self.swap_space.free(request_id)\n"
        ),
    ),
]
