"""Turns the mapping round: each slot that is named asks which row is its own. No slot is divided, for the cache is flat."""

from mini_vllm.attention.reference import ReferenceBackend as ReferenceReferenceBackend


class ReferenceBackend(ReferenceReferenceBackend):
    """What is not defined here is the reference's."""

    def write_kv(self, key, value, key_cache, value_cache, metadata):
        """Go through the cache in its own order."""
        row_of = {slot: row for row, slot in enumerate(metadata.slot_mapping.tolist()) if slot > -1}
        keys, values = key_cache.flatten(0, 1), value_cache.flatten(0, 1)
        for slot in sorted(row_of):
            keys[slot].copy_(key[row_of[slot]])
            values[slot].copy_(value[row_of[slot]])
