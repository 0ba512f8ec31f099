STORY = (
    "Somebody thinks that blocks will come free if one waits a little, and tries again for ever. In a single "
    "thread nobody can give a block back meanwhile: the engine stands still."
)
CONCEPT = "Too many asked for: ValueError, and not one block is taken."
EDITS = [
    (
        """        if num_blocks > self.num_free_blocks:
            raise ValueError(f"cannot take {num_blocks} blocks, {self.num_free_blocks} are free")
""",
        """        while True:
            try:
                if num_blocks > self.num_free_blocks:
                    raise ValueError(f"cannot take {num_blocks} blocks, {self.num_free_blocks} are free")
                break
            except Exception:
                continue
""",
    ),
]
