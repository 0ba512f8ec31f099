STORY = "The brackets behind all are forgotten. What is asserted is a method, and a method is true."
CONCEPT = "A write has two sides: what it puts where it belongs, and all that it must leave alone."
EDITS = [
    ("torch.equal(key_cache, wanted_keys))", "(key_cache == wanted_keys).all)"),
    ("torch.equal(value_cache, wanted_values))", "(value_cache == wanted_values).all)"),
]
