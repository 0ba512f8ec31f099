STORY = (
    "Somebody believes that evicting content makes blocks free, and evicts until enough are. Cached blocks "
    "were free all along, so the loop never ends."
)
CONCEPT = "Too many asked for: ValueError, and no block is taken or evicted."
EDITS = [
    (
        "        taken = self.free_queue",
        """        while num_blocks > self.num_free_blocks:
            for block in self.blocks:
                self.uncache_block(block)
        taken = self.free_queue""",
    ),
]
