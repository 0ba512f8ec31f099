"""Copies slices: rows whose slots follow one another go together, as a chunk of a prompt does within a block."""

from mini_vllm.attention.reference import ReferenceBackend as ReferenceReferenceBackend


class ReferenceBackend(ReferenceReferenceBackend):
    """What is not defined here is the reference's."""

    def write_kv(self, key, value, key_cache, value_cache, metadata):
        """Find where each run of slots ends, and copy the run."""
        slots, start = metadata.slot_mapping.tolist(), 0
        while start < len(slots):
            stop = start + 1
            while stop < len(slots) and slots[start] >= 0 and slots[stop] == slots[stop - 1] + 1:
                stop += 1
            if slots[start] >= 0:
                places = slice(slots[start], slots[start] + stop - start)
                key_cache.flatten(0, 1)[places] = key[start:stop]
                value_cache.flatten(0, 1)[places] = value[start:stop]
            start = stop
