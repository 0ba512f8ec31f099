STORY = (
    "popleft_n(0) gives the same empty list each time. When a caller fills it, the next one is given blocks "
    "that are not free."
)
CONCEPT = "A list that is given, or was given back, is the caller's: neither of the two changes the other's."
EDITS = [
    (
        "    def popleft_n(self, num_blocks: int)",
        """    nothing: list[KVCacheBlock] = []

    def popleft_n(self, num_blocks: int)""",
    ),
    (
        """        taken = []
""",
        """        if num_blocks == 0:
            return self.nothing
        taken = []
""",
    ),
]
