"""A model without weights that is honest about the KV cache: what it says depends on what the slots really hold.

The fake model of a trace says the same whatever a scheduler does with its blocks. This one reads the prefix of
a request out of the slots, through the block table, in two layers, as small as they can be:

    layer 1   a slot holds a token and its position
    layer 2   it holds a digest of layer 1 of all positions up to its own, as they were read
    logits    a digest of layer 2 of all positions, as they were read, and of the request's id

So a block that was never written, not copied or overwritten is heard at once, or in the next token after it. Only names
of the contract are read, so a learner's parts and the reference's are driven alike.
"""

from collections.abc import Sequence
from typing import Any

from mini_vllm.step import KVResult

Pairs = Sequence[tuple[int, int]]  # of block ids: (from, to)
Memory = dict[tuple[int, int, int], int]  # (layer, block, place in the block) -> what it holds

LAYERS = (1, 2)
NOTHING = 0  # what a slot holds that was never written
MODULUS = (1 << 61) - 1
VOCAB_SIZE = 50_000


def mix(digest: int, value: int) -> int:
    """A digest that has seen one value more; the same in every process."""
    return (digest * 1_000_003 + value + 1) % MODULUS


def sample(request_id: str, values: Sequence[int]) -> int:
    """The token that layer 2 gives, in [1, VOCAB_SIZE]. Every request draws its own, also from the same logits."""
    digest = 0
    for value in (*request_id.encode(), *values):
        digest = mix(digest, value)
    return 1 + digest % VOCAB_SIZE


def next_token(request_id: str, tokens: Sequence[int]) -> int:
    """What the model says to this request after these tokens, if it reads them and nothing else."""
    seen, values = 0, []
    for position, token in enumerate(tokens):
        seen = mix(seen, mix(position, token))
        values.append(seen)
    return sample(request_id, values)


class HonestModel:
    """The memory of one scheduler, its blocks on the device and in the CPU pool, and the model that computes on it."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.device: Memory = {}
        self.cpu: Memory = {}

    def execute(self, output: Any) -> dict[str, list[int]]:
        """Do a step: copy out, in and within, compute; the tokens of those who are to be sampled.

        What is to be copied is asked of the KV cache manager, which then hears that the step went well. Each layer is
        written for the whole batch before it is read, so a block may be shared in the step that fills it.
        """
        kv = self.scheduler.kv_cache_manager
        plan = kv.begin_step()
        self.copy(self.device, self.cpu, plan.swap_out)
        self.copy(self.cpu, self.device, plan.swap_in)
        self.copy(self.device, self.device, plan.copy)
        batch = [
            (request, n, self.slots(request, request.num_computed_tokens + n))
            for request in output.scheduled_requests
            for n in [output.num_scheduled_tokens[request.request_id]]
        ]
        for request, n, slots in batch:
            for position in range(len(slots) - n, len(slots)):
                self.device[(1, *slots[position])] = mix(position, request.all_token_ids[position])
        for _, n, slots in batch:
            seen = 0
            for position, slot in enumerate(slots):
                seen = mix(seen, self.device.get((1, *slot), NOTHING))
                if position >= len(slots) - n:
                    self.device[(2, *slot)] = seen
        kv.end_step(KVResult())
        return {
            each.request_id: [sample(each.request_id, [self.device.get((2, *slot), NOTHING) for slot in slots])]
            for request, n, slots in batch
            if self.scheduler.needs_sample(request, n)
            for each in (request, *output.sampling_along.get(request.request_id, ()))
        }

    def slots(self, request: Any, num_tokens: int) -> list[tuple[int, int]]:
        """Where the first num_tokens tokens lie: (block, place in it). Raises IndexError if the table is too short."""
        kv = self.scheduler.kv_cache_manager
        table, size = kv.get_block_ids(request.request_id), kv.block_size
        return [(table[position // size], position % size) for position in range(num_tokens)]

    def copy(self, source: Memory, target: Memory, pairs: Pairs) -> None:
        """Copy whole blocks. All are read before any is written."""
        places = range(self.scheduler.kv_cache_manager.block_size)
        target |= {
            (layer, new, place): source.get((layer, old, place), NOTHING)
            for old, new in pairs
            for layer in LAYERS
            for place in places
        }
