STORY = "With caching off, all who look share one empty list, and whoever puts something in changes it for all."
CONCEPT = "The list of hits is the caller's: the next look makes another one."
EDITS = [
    (
        """        hits: list[KVCacheBlock] = []
""",
        """        hits: list[KVCacheBlock] = [] if self.enable_prefix_caching else self.__dict__.setdefault("_none", [])
""",
    ),
    (
        "return hits, len(hits) * self.block_size",
        "return hits, len(hits) * self.block_size * self.enable_prefix_caching",
    ),
]
