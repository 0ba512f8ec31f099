"""The figures of PreemptionCost for this machine and this model, measured once when the engine starts.

Two copies each way and three forwards give the fixed and the growing part of each. What they write into the KV cache
is overwritten before anybody reads it. On a GPU some ms; on a CPU about the time of a prompt of 900 tokens.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, replace

import torch

from mini_vllm.config import EngineConfig
from mini_vllm.offload.swap import PreemptionCost
from mini_vllm.policies import get_scheduler_cls, options_of
from mini_vllm.step import ScheduledChunk, StepInput
from mini_vllm.worker.model_runner import ModelRunner

MAX_TOKENS = 512
REPEATS = 3


def with_preemption_cost(config: EngineConfig, runner: ModelRunner, max_model_len: int) -> EngineConfig:
    """The config with the measured figures, if its scheduler weighs costs and has none given."""
    options = options_of(get_scheduler_cls(config.scheduler, config.preemption_mode))
    weighs = config.preemption_mode == "cheaper" and "preemption_cost" in options
    if not weighs or config.preemption_cost is not None:
        return config
    limit = min(MAX_TOKENS, config.max_num_batched_tokens, max_model_len)
    return replace(config, preemption_cost=asdict(measure_preemption_cost(runner, limit)))


def measure_preemption_cost(
    runner: ModelRunner, max_tokens: int = MAX_TOKENS, clock: Callable[[], float] = time.perf_counter
) -> PreemptionCost:
    """Time forwards of up to max_tokens tokens and copies of as many. Nothing may be in flight.

    What cannot be measured keeps the default: in a KV cache of less than 4 blocks the seconds to compute, with a CPU
    pool of less than 2 blocks the seconds to copy.
    """
    engine, size = runner.cache_engine, runner.block_size
    key, cpu_key = engine.kv_caches[0][0], engine.cpu_caches[0][0]
    num_blocks = min(key.shape[0] - 1, max_tokens // size)
    bytes_per_token = 2 * len(engine.kv_caches) * key[0].nbytes / size
    cost = PreemptionCost(bytes_per_token=bytes_per_token)
    if num_blocks >= 4:
        quarter = num_blocks // 4 * size
        t1, t2, t4 = (_seconds(runner, _forward(quarter * k, size), clock) for k in (1, 2, 4))
        # t(n) = fixed + a n + b n^2 / 2 at n = q, 2q, 4q. The fixed part is no cost: a recomputed chunk joins a batch.
        b = ((t4 - t2) / 2 - (t2 - t1)) / (1.5 * quarter**2)
        a = (t2 - t1) / quarter - 1.5 * quarter * b
        if a < 0 or b < 0:  # too short to tell the two apart: a straight line
            a, b = max(t4 - t1, 0) / (3 * quarter), 0
        cost = replace(cost, seconds_per_token=a, seconds_per_pair=b)
    num_copied = min(key.shape[0] - 1, cpu_key.shape[0], num_blocks)
    if num_copied >= 2:
        one, all_ = (_seconds(runner, _round_trip(n), clock) / 2 for n in (1, num_copied))
        per_token = max(all_ - one, 1e-9) / ((num_copied - 1) * size)
        cost = replace(cost, bandwidth=bytes_per_token / per_token, seconds_per_copy=max(one - per_token * size, 0))
    return cost


def _forward(num_tokens: int, block_size: int) -> list[StepInput]:
    block_ids = tuple(range(1, 1 + -(-num_tokens // block_size)))
    return [StepInput((ScheduledChunk("", (0,) * num_tokens, 0, block_ids, None),))]


def _round_trip(num_blocks: int) -> list[StepInput]:
    out = tuple((1 + i, i) for i in range(num_blocks))
    return [StepInput((), blocks_to_swap_out=out), StepInput((), blocks_to_swap_in=tuple((c, b) for b, c in out))]


def _seconds(runner: ModelRunner, steps: list[StepInput], clock: Callable[[], float]) -> float:
    """The fastest of some repeats, after one that warms up."""
    synchronize: Callable[[], object] = torch.cuda.synchronize if runner.device.type == "cuda" else lambda: None
    seconds = []
    for _ in range(1 + REPEATS):
        synchronize()
        start = clock()
        for step in steps:
            runner.execute(step)
        synchronize()
        seconds.append(clock() - start)
    return min(seconds[1:])
