"""Many replicas behind a router, and the loop that drives them through a trace.

round_robin    in turn
least_loaded   to the replica with the fewest live tokens (prompts and outputs of its unfinished
               requests)
prefix_aware   to the replica whose cache holds most of the prompt, see routing.py

The router sees a replica at the end of the step that is under way.
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
from mini_vllm.simulator.routing import ReplicaState, by_prefix
from mini_vllm.simulator.sim_request import SimRequest
from mini_vllm.simulator.step_time import StepTimeModel

MAX_BLOCKS = 5_000_000  # of all replicas; one takes about 150 bytes and 2 microseconds to make


def round_robin(replicas: Sequence[Replica], request: SimRequest, index: int) -> Replica:
    """The next one."""
    return replicas[index % len(replicas)]


def least_loaded(replicas: Sequence[Replica], request: SimRequest, index: int) -> Replica:
    """The one with the fewest live tokens; of equals the first."""
    return min(replicas, key=lambda replica: replica.num_live_tokens)


def prefix_aware(replicas: Sequence[Replica], request: SimRequest, index: int) -> Replica:
    """As routing.by_prefix() says of the caches themselves."""
    states = [
        ReplicaState(
            replica.scheduler.kv_cache_manager.get_computed_blocks(request)[1],
            replica.num_requests,
            replica.num_live_tokens,
            bool(replica.scheduler.waiting),
            replica.is_unused,
        )
        for replica in replicas
    ]
    return replicas[by_prefix(states, request.num_prompt_tokens)]


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


def check_fleet(num_replicas: int, config: Mapping[str, Any], routing: str) -> None:
    """Raise InvalidParameterError for a routing that is none, and for too few or too many
    replicas.
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


def simulate(
    trace: Iterable[TraceRequest],
    config: Mapping[str, Any],
    model: StepTimeModel,
    *,
    num_replicas: int = 1,
    routing: str = "round_robin",
    slo: SLO | None = None,
    metrics: Metrics | None = None,
    replica_cls: Callable[..., Replica] = Replica,
) -> Simulation:
    """Run a trace through replicas of one configuration (that of a trace of
    mini_vllm/observe/trace.py), to its end.

    metrics: what is told of the run, in the place of Metrics(slo). replica_cls: makes a replica,
    in the place of Replica. Prompts that can never be
    computed are refused and counted. Raises InvalidParameterError for a bad configuration.
    """
    check_fleet(num_replicas, config, routing)
    metrics = metrics or Metrics(slo or SLO())
    replicas = [replica_cls(config, model, metrics, is_first=i == 0) for i in range(num_replicas)]
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
