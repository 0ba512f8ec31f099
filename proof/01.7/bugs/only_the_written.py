STORY = "Each row is looked for in its slot, and no other slot is looked at. What was destroyed there is not missed."
CONCEPT = "A write has two sides: what it puts where it belongs, and all that it must leave alone."
EDITS = [
    (
        "torch.equal(key_cache, wanted_keys))",
        "all(torch.equal(key_cache[s // 3, s % 3], wanted_keys[s // 3, s % 3]) for s in slots if s != -1))",
    ),
    (
        "torch.equal(value_cache, wanted_values))",
        "all(torch.equal(value_cache[s // 3, s % 3], wanted_values[s // 3, s % 3]) for s in slots if s != -1))",
    ),
]
