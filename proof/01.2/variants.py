# === asked_by_the_slots
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


# === block_by_block
"""Sorts the tokens into blocks first, then fills one block after the other, one half of the channels from behind."""

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
            for offset, row in places:
                key_cache[block_id, offset, :, ::2] = key[row, :, ::2]
                value_cache[block_id, offset, :, 1::2] = value[row, :, 1::2]
            for offset, row in reversed(places):
                key_cache[block_id, offset, :, 1::2] = key[row, :, 1::2]
                value_cache[block_id, offset, :, ::2] = value[row, :, ::2]


# === gather_the_old
"""Computes the whole new cache, each slot from its row or from its old content, and copies it back in one go."""

import torch

from mini_vllm.attention.reference import ReferenceBackend as ReferenceReferenceBackend


class ReferenceBackend(ReferenceReferenceBackend):
    """What is not defined here is the reference's."""

    def write_kv(self, key, value, key_cache, value_cache, metadata):
        """Every slot takes its row if it has one, and what it held before if not."""
        num_slots = key_cache.shape[0] * key_cache.shape[1]
        row_of_slot = torch.full((num_slots + 1,), -1)
        rows = torch.arange(len(metadata.slot_mapping))
        row_of_slot[metadata.slot_mapping.where(metadata.slot_mapping >= 0, num_slots)] = rows
        row_of_slot = row_of_slot[:-1]
        for cache, new in ((key_cache, key), (value_cache, value)):
            flat = cache.flatten(0, 1)
            new_or_old = new[row_of_slot.clamp(min=0)].where((row_of_slot >= 0)[:, None, None], flat)
            flat.copy_(new_or_old)


# === index_copy
"""Flattens slots and rows to vectors and copies them with index_copy_, torch's own scatter of rows."""

import torch

from mini_vllm.attention.reference import ReferenceBackend as ReferenceReferenceBackend


class ReferenceBackend(ReferenceReferenceBackend):
    """What is not defined here is the reference's."""

    def write_kv(self, key, value, key_cache, value_cache, metadata):
        """Store the rows that are no padding with index_copy_."""
        rows = torch.nonzero(metadata.slot_mapping >= 0).squeeze(1)
        slots = metadata.slot_mapping.index_select(0, rows)
        for cache, new in ((key_cache, key), (value_cache, value)):
            cache.view(-1, new.shape[1] * new.shape[2]).index_copy_(0, slots, new.index_select(0, rows).flatten(1))


# === one_scatter
"""Chooses the rows that are no padding, then assigns all of them at once through a flat view of the cache."""

from mini_vllm.attention.reference import ReferenceBackend as ReferenceReferenceBackend


class ReferenceBackend(ReferenceReferenceBackend):
    """What is not defined here is the reference's."""

    def write_kv(self, key, value, key_cache, value_cache, metadata):
        """Store the rows that are no padding, all at once."""
        real = metadata.slot_mapping >= 0
        slots = metadata.slot_mapping[real]
        key_cache.flatten(0, 1)[slots] = key[real]
        value_cache.flatten(0, 1)[slots] = value[real]


# === runs_of_slots
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


# === whole_numbers
"""Moves the bits as whole numbers, and lets index_put_ find block and offset of all rows at once."""

import torch

from mini_vllm.attention.reference import ReferenceBackend as ReferenceReferenceBackend

WHOLE = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class ReferenceBackend(ReferenceReferenceBackend):
    """What is not defined here is the reference's."""

    def write_kv(self, key, value, key_cache, value_cache, metadata):
        """Put the bits of the rows where they belong."""
        (rows,) = torch.where(metadata.slot_mapping != -1)
        slots = metadata.slot_mapping[rows]
        places = torch.div(slots, metadata.block_size, rounding_mode="floor"), slots % metadata.block_size
        for cache, new in ((key_cache, key), (value_cache, value)):
            whole = WHOLE[cache.element_size()]
            cache.view(whole).index_put_(places, new[rows].contiguous().view(whole))
