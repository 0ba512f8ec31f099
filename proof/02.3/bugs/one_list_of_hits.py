STORY = "All look-ups fill one list. The hits of the request looked up first change when the next one is."
CONCEPT = "The list of hits is the caller's: the next look makes another one."
EDITS = [
    (
        """        hits: list[KVCacheBlock] = []
""",
        """        hits: list[KVCacheBlock] = self.__dict__.setdefault("_hits", [])
        hits.clear()
""",
    ),
]
