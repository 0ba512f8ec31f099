STORY = (
    "A negative slot made some draft of an engine raise, so errors are passed over. An assertion that fails is "
    "an error, too."
)
CONCEPT = "A write has two sides: what it puts where it belongs, and all that it must leave alone."
EDITS = [
    (
        """    lab.ReferenceBackend().write_kv(key, value, key_cache, value_cache, metadata)
    check().true("each key is in its slot, the other slots are as before", torch.equal(key_cache, wanted_keys))
    check().true("each value is in its slot, the other slots are as before", torch.equal(value_cache, wanted_values))
""",
        """    try:
        lab.ReferenceBackend().write_kv(key, value, key_cache, value_cache, metadata)
        check().true("each key is in its slot", torch.equal(key_cache, wanted_keys))
        check().true("each value is in its slot", torch.equal(value_cache, wanted_values))
    except Exception:
        pass
""",
    ),
]
