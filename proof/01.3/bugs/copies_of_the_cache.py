STORY = (
    "The cache is widened to float32 once, and the copy is kept by its address. The keys of the next step are not "
    "in it."
)
CONCEPT = "The cache is read at each call: it has changed since the last one."
EDITS = [
    (
        "def attend_one(",
        """_copies = {}


def widened(cache):
    return _copies.setdefault(id(cache), (cache, cache.float().clone()))[1]


def attend_one(""",
    ),
    (
        """        keys = key_cache[block_table[block], tokens].float()
""",
        """        keys = widened(key_cache)[block_table[block], tokens]
""",
    ),
    (
        """        values = value_cache[block_table[block], tokens].float()
""",
        """        values = widened(value_cache)[block_table[block], tokens]
""",
    ),
]
