STORY = (
    "The keys are multiplied by the scale in place. float() makes no copy of a float32 tensor, so the cache itself"
    " shrinks at every look."
)
CONCEPT = "Query, caches and table are read, not changed."
EDITS = [
    (
        """        keys = key_cache[block_table[block], tokens].float()
""",
        """        keys = key_cache[block_table[block], tokens].float()
        keys *= scale
""",
    ),
    (
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
""",
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys)
""",
    ),
]
