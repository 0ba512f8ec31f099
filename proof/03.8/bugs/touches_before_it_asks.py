STORY = (
    "A learner takes the cached blocks out of the free queue before the rest is there. After a refusal nobody "
    "holds them and nobody can have them."
)
CONCEPT = "A refusal changes nothing: a request that does not fit is as it was, its head start not yet taken."
EDITS = [
    (
        "            n = self._chunk_size(request, num_computed, request.num_tokens)\n",
        (
            "            n = self._chunk_size(request, num_computed, request.num_tokens)\n"
            "            if not self._may_admit(request, num_computed + n, computed_blocks):\n"
            "                kv.block_pool.touch(computed_blocks)\n"
        ),
    ),
]
