"""Sorts the tokens into blocks first, then fills one block after the other."""

from mini_vllm.attention.reference import ReferenceBackend as ReferenceReferenceBackend


class ReferenceBackend(ReferenceReferenceBackend):
    """What is not defined here is the reference's."""

    def write_kv(self, key, value, key_cache, value_cache, metadata):
        """Store the rows block by block."""
        size = key_cache.shape[1]
        of_block = {}
        for row, slot in enumerate(metadata.slot_mapping.tolist()):
            if slot != -1:
                of_block.setdefault(slot // size, []).append((slot % size, row))
        for block_id, places in of_block.items():
            offsets, rows = (list(each) for each in zip(*places))
            key_cache[block_id][offsets] = key[rows]
            value_cache[block_id][offsets] = value[rows]
