STORY = "A learner notes the hit in the request when the question is asked. A refused request has a hit, too, and a victim loses its first one."
CONCEPT = (
    "Asking changes nothing: not the request, not the lists, not the blocks of the hit or the order of the free ones."
)
EDITS = [
    (
        "        num_spare = self.num_watermark_blocks if self.running else 0\n",
        "        request.num_cached_tokens = len(computed_blocks) * kv.block_size\n        num_spare = self.num_watermark_blocks if self.running else 0\n",
    )
]
