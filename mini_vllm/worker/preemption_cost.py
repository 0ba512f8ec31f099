"""The figures of PreemptionCost for this machine and this model, measured once when the engine
starts.

Two copies each way and three forwards give the fixed and the growing part of each. What they write
into the KV cache is overwritten before anybody reads it. On a GPU some ms; on a CPU about the time
of a prompt of 900 tokens.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, replace

from mini_vllm.config import EngineConfig
from mini_vllm.offload.cost import PreemptionCost
from mini_vllm.params import SamplingParams
from mini_vllm.step import Chunk, CpuBlockId, KVPlan, SamplingRow, StepInput
from mini_vllm.worker.executor import Executor
from mini_vllm.worker.memory import KVCachePlan

MAX_TOKENS = 512
REPEATS = 3


def with_preemption_cost(
    config: EngineConfig, executor: Executor, plan: KVCachePlan
) -> EngineConfig:
    """The config with the measured figures, if its scheduler weighs costs and has none given."""
    if (
        config.preemption_mode != "cheaper"
        or config.preemption_cost is not None
        or not plan.num_cpu_blocks
    ):
        return config
    limit = min(MAX_TOKENS, config.max_num_batched_tokens, plan.max_model_len)
    return replace(config, preemption_cost=asdict(measure_preemption_cost(executor, plan, limit)))


def measure_preemption_cost(
    executor: Executor,
    plan: KVCachePlan,
    max_tokens: int = MAX_TOKENS,
    clock: Callable[[], float] = time.perf_counter,
) -> PreemptionCost:
    """Time forwards of up to max_tokens tokens and copies of as many. Nothing may be in flight.

    What cannot be measured keeps the default: in a KV cache of less than 4 blocks the seconds to
    compute, with a CPU pool of less than 2 blocks the seconds to copy.
    """
    size = plan.block_size
    num_blocks = min(plan.num_blocks - 1, max_tokens // size)
    bytes_per_token = plan.bytes_per_block / size
    cost = PreemptionCost(bytes_per_token=bytes_per_token)
    if num_blocks >= 4:
        quarter = num_blocks // 4 * size
        t1, t2, t4 = (_seconds(executor, _forward(quarter * k, plan), clock) for k in (1, 2, 4))
        # t(n) = fixed + a n + b n^2 / 2 at n = q, 2q, 4q. The fixed part is no cost: a recomputed
        # chunk joins a batch.
        b = ((t4 - t2) / 2 - (t2 - t1)) / (1.5 * quarter**2)
        a = (t2 - t1) / quarter - 1.5 * quarter * b
        if a < 0 or b < 0:  # too short to tell the two apart: a straight line
            a, b = max(t4 - t1, 0) / (3 * quarter), 0
        cost = replace(cost, seconds_per_token=a, seconds_per_pair=b)
    num_copied = min(plan.num_cpu_blocks, num_blocks)
    if num_copied >= 2:
        one, all_ = (_seconds(executor, _round_trip(n), clock) / 2 for n in (1, num_copied))
        per_token = max(all_ - one, 1e-9) / ((num_copied - 1) * size)
        cost = replace(
            cost,
            bandwidth=bytes_per_token / per_token,
            seconds_per_copy=max(one - per_token * size, 0),
        )
    return cost


def _forward(num_tokens: int, plan: KVCachePlan) -> list[StepInput]:
    block_ids = tuple(range(1, 1 + num_tokens // plan.block_size))
    chunk = Chunk("", (0,) * num_tokens, 0, (block_ids,) * len(plan.layout.groups))
    return [
        StepInput.of([chunk], {"": SamplingRow(SamplingParams())}),
        StepInput(finished_req_ids=("",)),
    ]


def _round_trip(num_blocks: int) -> list[StepInput]:
    out = tuple((1 + i, CpuBlockId(i)) for i in range(num_blocks))
    return [
        StepInput(kv=KVPlan(swap_out=out)),
        StepInput(kv=KVPlan(swap_in=tuple((c, b) for b, c in out))),
    ]


def _seconds(executor: Executor, steps: list[StepInput], clock: Callable[[], float]) -> float:
    """The fastest of some repeats, after one that warms up."""
    seconds = []
    for _ in range(1 + REPEATS):
        executor.synchronize()
        start = clock()
        for step in steps:
            executor.execute(step).result()
        executor.synchronize()
        seconds.append(clock() - start)
    return min(seconds[1:])
