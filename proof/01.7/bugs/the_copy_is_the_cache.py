STORY = "clone() is forgotten, so what was before has the same memory as what is after. A tensor equals itself."
CONCEPT = "A write has two sides: what it puts where it belongs, and all that it must leave alone."
EDITS = [
    (
        """    wanted_keys, wanted_values = key_cache.clone(), value_cache.clone()
""",
        """    wanted_keys, wanted_values = key_cache, value_cache
""",
    ),
]
