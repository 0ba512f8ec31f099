"""Many replicas behind a router, and the loop that drives them through a trace.

round_robin    in turn
least_loaded   to the replica with the fewest live tokens (prompts and outputs of its unfinished
               requests)
prefix_aware   to the replica whose cache holds the longest prefix of the prompt, if that is more
               than CACHE_THRESHOLD of it and the loads are balanced; else to the least loaded one

The loads are out of balance when the busiest replica has more than BALANCE_ABS_THRESHOLD requests
more than the idlest one, and more than BALANCE_REL_THRESHOLD times as many. Without the threshold
on the prefix, a hit of one block would beat an empty replica, and replicas that have served no
request yet would stay empty.

A light load is never 64 requests out of balance. When all prompts begin with the same 8,192 tokens,
these thresholds alone send every request of a light load to one replica. So two more rules hold
here. A replica that has served no request yet gets the prompt if the one with its prefix is busy: a
cache that nothing fills draws nothing. And no prompt joins a queue for the sake of its prefix while
another replica has nothing to do.

Source: the three thresholds, their defaults and the comparisons are those of the policy cache_aware
of SGLang's Model Gateway 0.3.2, before that SGLang's router
(sgl-model-gateway/src/policies/cache_aware.rs; its documentation, "Cache-Aware Policy Tuning"). The
two rules for replicas with nothing to do are not from there. Two more things differ. The gateway
guesses what is cached from what it has sent where; this router looks into the caches themselves, as
llm-d's precise prefix-cache scorer does. And without a match, or out of balance, the gateway takes
the fewest requests, this router the fewest live tokens. What waits is in no cache yet: of two equal
prompts at once, neither draws the other. The router sees a replica at the end of the step that is
under way.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mini_vllm.errors import InvalidParameterError, PromptTooLongError, shown
from mini_vllm.load.workload import TraceRequest
from mini_vllm.policies.registry import (
    PREEMPTION_MODES,
    SCHEDULERS,
    get_kv_cache_manager_cls,
    get_scheduler_cls,
    options_of,
)
from mini_vllm.simulator.metrics import SLO, Metrics, TimelinePoint
from mini_vllm.simulator.replica import Replica
from mini_vllm.simulator.sim_request import SimRequest
from mini_vllm.simulator.step_time import StepTimeModel

CACHE_THRESHOLD = 0.3  # of the prompt
BALANCE_ABS_THRESHOLD, BALANCE_REL_THRESHOLD = 64, 1.5  # requests; times
MAX_BLOCKS = 5_000_000  # of all replicas; one takes about 150 bytes and 2 microseconds to make


def round_robin(replicas: Sequence[Replica], request: SimRequest, index: int) -> Replica:
    """The next one."""
    return replicas[index % len(replicas)]


def least_loaded(replicas: Sequence[Replica], request: SimRequest, index: int) -> Replica:
    """The one with the fewest live tokens; of equals the first."""
    return min(replicas, key=lambda replica: replica.num_live_tokens)


def prefix_aware(replicas: Sequence[Replica], request: SimRequest, index: int) -> Replica:
    """The one that has cached most of the prompt, if that is enough of it and the loads are
    balanced.
    """

    def preference(replica: Replica) -> tuple[int, int]:
        num_cached = replica.scheduler.kv_cache_manager.get_computed_blocks(request)[1]
        return num_cached, -replica.num_live_tokens

    loads = [replica.num_requests for replica in replicas]
    low, high = min(loads), max(loads)
    is_balanced = high - low <= BALANCE_ABS_THRESHOLD or high <= BALANCE_REL_THRESHOLD * low
    best = max(replicas, key=preference) if is_balanced else None
    if best is None or preference(best)[0] <= CACHE_THRESHOLD * request.num_prompt_tokens:
        return least_loaded(replicas, request, index)
    if best.num_requests and (unused := [replica for replica in replicas if replica.is_unused]):
        return unused[0]
    return best if low or not best.scheduler.waiting else least_loaded(replicas, request, index)


ROUTINGS: dict[str, Callable[[Sequence[Replica], SimRequest, int], Replica]] = {
    "round_robin": round_robin,
    "least_loaded": least_loaded,
    "prefix_aware": prefix_aware,
}


def policy_names() -> list[str]:
    """What is compared: every scheduler of the family, and with "+mode" each other way to preempt
    of V1.
    """
    return [
        *SCHEDULERS,
        *(f"v1+{mode}" for mode in PREEMPTION_MODES if _changes_manager("v1", mode)),
    ]


def _changes_manager(name: str, mode: str) -> bool:
    if name not in SCHEDULERS or mode not in PREEMPTION_MODES:
        return False
    scheduler_cls = get_scheduler_cls(name)
    return get_kv_cache_manager_cls(scheduler_cls, mode) is not scheduler_cls.kv_cache_manager_cls


def policy_config(policy: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with this policy, one of policy_names(), or of another scheduler with its
    mode.

    One that swaps gets a CPU pool as large as the KV cache. Raises InvalidParameterError for an
    unknown name.
    """
    name, _, mode = policy.partition("+")
    if policy not in policy_names() and not _changes_manager(name, mode):
        raise InvalidParameterError(
            f"scheduler must be one of {policy_names()}, got {shown(policy)}"
        )
    chosen = {**config, "scheduler": name, "preemption_mode": mode or "recompute"}
    manager_cls = get_kv_cache_manager_cls(get_scheduler_cls(name), chosen["preemption_mode"])
    if "num_cpu_blocks" in options_of(manager_cls):
        chosen.setdefault("num_cpu_blocks", config["num_blocks"] - 1)
    return chosen


def policy_configs(
    scheduler: str, config: Mapping[str, Any], drafts: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """By name, the configuration of each policy; then the same with drafts, which of "all" is V1's
    alone.
    """
    policies = (
        policy_names() if scheduler == "all" else [name.strip() for name in scheduler.split(",")]
    )
    configs = {policy: policy_config(policy, config) for policy in policies}
    given = {name: value for name, value in drafts.items() if value is not None}
    drafting = (
        () if drafts["acceptance"] is None else policies if scheduler != "all" else policies[:1]
    )
    return configs | {f"{policy}+drafts": {**configs[policy], **given} for policy in drafting}


class Simulation(NamedTuple):
    """What simulate() returns."""

    report: dict[str, Any]  # see Metrics.report; and requests_per_replica
    timeline: list[TimelinePoint]  # of the first replica


def simulate(
    trace: Iterable[TraceRequest],
    config: Mapping[str, Any],
    model: StepTimeModel,
    *,
    num_replicas: int = 1,
    routing: str = "round_robin",
    slo: SLO | None = None,
    metrics: Metrics | None = None,
) -> Simulation:
    """Run a trace through replicas of one configuration (that of a trace of
    mini_vllm/observe/trace.py), to its end.

    metrics: what is told of the run, in the place of Metrics(slo). Prompts that can never be
    computed are refused and counted. Raises InvalidParameterError for a bad configuration.
    """
    if routing not in ROUTINGS or num_replicas < 1:
        raise InvalidParameterError(
            f"routing must be one of {list(ROUTINGS)} and replicas at least 1, got "
            f"{shown(routing)} and {num_replicas}"
        )
    if num_replicas * config["num_blocks"] > MAX_BLOCKS:
        raise InvalidParameterError(
            f"{num_replicas:,} replicas of {config['num_blocks']:,} KV blocks are more than the "
            f"{MAX_BLOCKS:,} blocks "
            "that are simulated at once"
        )
    metrics = metrics or Metrics(slo or SLO())
    replicas = [Replica(config, model, metrics, is_first=i == 0) for i in range(num_replicas)]
    route, block_size = ROUTINGS[routing], config["block_size"]
    num_routed = [0] * num_replicas
    for index, spec in enumerate(trace):
        for replica in replicas:
            replica.run_until(spec.arrival_time)
        request = SimRequest(index, spec, block_size)
        try:
            chosen = route(replicas, request, index)
            chosen.add(request)
            num_routed[replicas.index(chosen)] += 1
        except PromptTooLongError:
            metrics.num_refused += 1
    for replica in replicas:
        replica.run_until(math.inf)
    stats = [replica.scheduler.prefix_cache_stats for replica in replicas]
    report = metrics.report(sum(each.queries for each in stats), sum(each.hits for each in stats))
    report["requests_per_replica"] = num_routed
    return Simulation(report, metrics.timeline.points)
