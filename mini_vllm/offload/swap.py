"""Preemption by swapping, for the V1 scheduler: a victim's blocks go to main memory and come back, not computed again.

The price of a preemption is then two copies of the KV cache instead of a second prefill. SwappingScheduler decides as
Scheduler does; only what happens to a victim differs, and where a re-admission starts. PreemptionCost says which of the
two is cheaper: copying grows with the context, computing faster than that.

In one step copies go out first, then in, then the model runs: a block that a victim gives up may be taken at once, and
what is swapped in may be shared at once. Nothing is trusted before update_from_output() has confirmed the step.

vLLM's V1 dropped this: "vLLM V1 no longer requires KV cache swapping to handle request preemptions" (vLLM's
docs/usage/v1_guide.md, github.com/vllm-project/vllm), as "recomputation has lower overhead in the V1 architecture"
(docs/configuration/optimization.md). V0 swapped groups of sequences that share blocks, which V1 does not have, and
recomputed the rest, because of the "numerous small data transfers" of a swap (pull request 12). Main memory has
returned as a second level of the prefix cache (KV connectors).
Source: _preempt_by_swap in vllm/core/scheduler.py of V0; the paper's section 4.5 (arXiv 2309.06180).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.errors import InvalidParameterError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.offload.swap_space import SwapSpace
from mini_vllm.params import Params, is_number
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler, SchedulerOutput

BlockPairs = list[tuple[int, int]]  # (from, to)


@dataclass(frozen=True, slots=True)
class PreemptionCost(Params):
    """What one preemption costs, in seconds, for a context of n tokens whose K and V are in the cache.

        recompute(n) = n * seconds_per_token + n^2 / 2 * seconds_per_pair       linear layers, causal attention
        swap(n) = 2 * (seconds_per_copy + n * bytes_per_token / bandwidth)      out and back

    The default is Llama-3.1-8B in bfloat16 on an H100 SXM. To compute, at half of the 989 TFLOP/s of its data sheet:
    2 FLOP for each of the 7.5e9 weights of the layers, 15 GFLOP, are 30 us a token; 4 FLOP x 32 layers x 32 heads x
    128, 0.5 MFLOP, are 1.1 ns a pair. To swap: 2 x 32 layers x 8 heads x 128 x 2 bytes are 128 KiB a token, PCIe 5.0
    x16 moves 64 GB/s each way, and a copy is about 200 kernel launches (CacheEngine), 5 us each assumed. So 1,000
    tokens take 31 ms to compute and 6 ms to swap, and swapping wins from 77 tokens on. One transfer for each block,
    layer and half, as in V0, turns it round if it takes 4 us: 8 a token, out and back, are the 30 us that computing
    takes. What the model leaves out speaks for computing: the hit that a re-admission may find, and steps of few
    tokens, in which a GPU idles anyway.

    Measured on two cores of a Xeon, where both pools are main memory (benchmarks/results/swap.md): the bundled model
    takes 120 ms to compute 1,024 tokens and 3 ms to swap them, and the two meet below 8 tokens.

    Raises InvalidParameterError for a figure that is negative or not finite, or a bandwidth of 0.
    Source: nvidia.com/en-us/data-center/h100 (989 TFLOP/s dense bfloat16, PCIe Gen5 128 GB/s both ways together).
    """

    seconds_per_token: float = 30e-6
    seconds_per_pair: float = 1.1e-9
    """One query and one key it sees, in all layers and heads."""
    bytes_per_token: float = 128 * 1024
    bandwidth: float = 64e9
    """Bytes per second, one way."""
    seconds_per_copy: float = 1e-3
    """Fixed, one way, however many blocks."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            self.require(name, is_number(getattr(self, name), 0, math.inf), "a finite number of at least 0")
        self.require("bandwidth", self.bandwidth > 0, "above 0")

    def recompute(self, num_tokens: int) -> float:
        return num_tokens * self.seconds_per_token + num_tokens**2 / 2 * self.seconds_per_pair

    def swap(self, num_tokens: int) -> float:
        return 2 * (self.seconds_per_copy + num_tokens * self.bytes_per_token / self.bandwidth)

    def swap_is_cheaper(self, num_tokens: int) -> bool:
        return self.swap(num_tokens) < self.recompute(num_tokens)

    @property
    def crossover(self) -> float:
        """From how many tokens on swapping is cheaper; infinite if it never is."""
        a = self.seconds_per_pair / 2
        b = self.seconds_per_token - 2 * self.bytes_per_token / self.bandwidth
        c = 2 * self.seconds_per_copy
        if a == 0:
            return c / b if b > 0 else math.inf
        return (math.sqrt(b * b + 4 * a * c) - b) / (2 * a)


class SwappingKVCacheManager(KVCacheManager):
    """A KVCacheManager that knows the CPU pool: a request that was swapped out is found there as it is in the cache.

    A re-admission's table then reads, in tokens:

        [0, hit)  shared, found on the device     [hit, swapped)  new blocks, copied in     [swapped, ...)  to compute

    Whoever uses it takes the copies of each step and says how the step ended: confirm_copies() or drop_copies().
    """

    def __init__(self, num_blocks: int, block_size: int, **options: Any) -> None:
        super().__init__(num_blocks, block_size, **options)
        self.swap_space = SwapSpace(0)
        self._swapped: dict[str, int] = {}  # by request: the tokens whose K and V the CPU pool holds
        # The copies of the coming step, by request: they stay until the step has ended.
        self._swapping_out: dict[str, BlockPairs] = {}
        self._swapping_in: dict[str, BlockPairs] = {}
        self._hits: dict[str, int] = {}  # of those that are admitted in this step: tokens found on the device

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        """The longest cached prefix, its blocks; and the tokens that need no computing, those in the CPU pool too."""
        hits, num_hit = super().get_computed_blocks(request)
        return hits, max(num_hit, self._swapped.get(request.request_id, 0))

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        """As ever; what lies in the CPU pool behind the computed blocks gets slots too, and is copied there."""
        request_id = request.request_id
        if request_id not in self._swapped or request_id in self._tables:
            return super().allocate_slots(request, num_new_tokens, computed_blocks)
        num_swapped, start = self._swapped[request_id], len(computed_blocks)
        num_behind = max(num_swapped - start * self.block_size, 0)
        new_blocks = super().allocate_slots(request, num_behind + num_new_tokens, computed_blocks)
        if new_blocks is not None:
            behind = self.get_block_ids(request_id)[start : self._num_blocks(num_swapped)]
            self._swapping_in[request_id] = self.swap_space.swap_in(request_id, behind, start)
            self._hits[request_id] = start * self.block_size
        return new_blocks

    def free(self, request: Request) -> None:
        super().free(request)
        if request.is_finished:
            self._forget(request.request_id)

    def swap_out(self, request: Request) -> None:
        """Copy the computed blocks to the CPU pool, before they are freed; nothing, if they do not all fit there."""
        request_id, num_tokens = request.request_id, request.num_computed_tokens
        if request_id in self._swapped:  # it was about to come back when the step failed
            return
        pairs = self.swap_space.swap_out(request_id, self.get_block_ids(request_id)[: self._num_blocks(num_tokens)])
        if pairs is not None:
            self._swapping_out[request_id] = pairs
            self._swapped[request_id] = num_tokens

    def num_on_device(self, request: Request, num_computed_tokens: int) -> int:
        """How many of these are there without a copy of this step."""
        return self._hits.get(request.request_id, num_computed_tokens)

    def copies(self) -> tuple[BlockPairs, BlockPairs]:
        """What the coming step copies: (block, CPU block) out, (CPU block, block) in."""
        return list(chain(*self._swapping_out.values())), list(chain(*self._swapping_in.values()))

    def confirm_copies(self) -> None:
        """The step went well: who came back needs the CPU pool no more."""
        for request_id in list(self._hits):
            self._forget(request_id)
        self._swapping_out.clear()
        self._swapping_in.clear()
        self._hits.clear()

    def drop_copies(self) -> None:
        """The step failed: what it was to swap out may never have arrived; what it was to swap in is still there."""
        for request_id in list(self._swapping_out):
            self._forget(request_id)
        self._swapping_in.clear()
        self._hits.clear()

    def _num_blocks(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def _forget(self, request_id: str) -> None:
        self._swapped.pop(request_id, None)
        self.swap_space.free(request_id)
        self._swapping_out.pop(request_id, None)  # its CPU blocks may be another's in this very step


class SwappingScheduler(Scheduler):
    """The V1 scheduler with preemption_mode "swap", or "cheaper" of swapping and computing again, for each victim.

    num_cpu_blocks: size of the CPU pool; a victim that does not fit in is computed again. preemption_cost: the figures
    of PreemptionCost by name, None: its default. A request that a failed step preempts is computed again too, unless
    it was just coming back. Raises InvalidParameterError for another mode, a pool of less than 0 blocks, or a KV cache
    manager that cannot swap.
    """

    kv_cache_manager_cls: ClassVar[type[KVCacheManager]] = SwappingKVCacheManager
    kv_cache_manager: SwappingKVCacheManager

    def __init__(
        self,
        kv_cache_manager: KVCacheManager,
        *,
        preemption_mode: str = "swap",
        num_cpu_blocks: int = 0,
        preemption_cost: Mapping[str, float] | None = None,
        **options: Any,
    ) -> None:
        if preemption_mode not in ("swap", "cheaper"):
            raise InvalidParameterError(f"preemption_mode must be 'swap' or 'cheaper' here, got {preemption_mode!r}")
        if not isinstance(kv_cache_manager, SwappingKVCacheManager):
            name = type(kv_cache_manager).__name__
            raise InvalidParameterError(f"swapping needs a SwappingKVCacheManager, got {name}")
        super().__init__(kv_cache_manager, **options)
        kv_cache_manager.swap_space = SwapSpace(num_cpu_blocks)
        self.preemption_mode = preemption_mode
        self.num_cpu_blocks = num_cpu_blocks
        self.preemption_cost = preemption_cost
        self.cost = PreemptionCost(**(preemption_cost or {}))

    def schedule(self) -> SchedulerOutput:
        output = super().schedule()
        output.blocks_to_swap_out, output.blocks_to_swap_in = self.kv_cache_manager.copies()
        return output

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        self.kv_cache_manager.confirm_copies()
        return super().update_from_output(output, sampled_token_ids)

    def fail_step(self, output: SchedulerOutput) -> None:
        """As ever; what was to be swapped in counts as what was to be computed: nobody knows whether it was."""
        kv = self.kv_cache_manager
        for request in output.scheduled_requests:
            num_safe = kv.num_on_device(request, request.num_computed_tokens)
            output.num_scheduled_tokens[request.request_id] += request.num_computed_tokens - num_safe
            request.num_computed_tokens = num_safe
        super().fail_step(output)
        kv.drop_copies()

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        # What comes back from the CPU pool is no hit of the prefix cache: the statistics see the rest.
        super()._admit(request, self.kv_cache_manager.num_on_device(request, num_computed_tokens))
        request.num_computed_tokens = num_computed_tokens

    def _preempt(self, request: Request) -> None:
        num_tokens = request.num_computed_tokens
        if num_tokens and (self.preemption_mode == "swap" or self.cost.swap_is_cheaper(num_tokens)):
            self.kv_cache_manager.swap_out(request)
        super()._preempt(request)
