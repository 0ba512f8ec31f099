"""What simulate runs: every policy in a plain fleet, with tiers, and with engines of two roles."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from mini_vllm.cli.common import option
from mini_vllm.cli.simulated.engines import Engines
from mini_vllm.errors import InvalidParameterError, is_int, shown
from mini_vllm.load.workload import TraceRequest
from mini_vllm.simulator.fleet import Simulation, simulate
from mini_vllm.simulator.metrics import Metrics
from mini_vllm.simulator.replica import Replica
from mini_vllm.simulator.roles import fleet as role_fleet
from mini_vllm.simulator.roles import options as role_options
from mini_vllm.simulator.roles.verdict import verdict
from mini_vllm.simulator.step_time import StepTimeModel
from mini_vllm.simulator.tiers import options as tier_options
from mini_vllm.simulator.tiers.replica import simulate_tiers
from mini_vllm.simulator.timeline.spans import Spans

GB = 10**9


@dataclass(frozen=True, kw_only=True)
class Tiers:
    """The options of main memory and a disk behind each engine's prefix cache."""

    kv_offload_bytes: int | None = option(
        None, "Run it with so much main memory behind each prefix cache, too.", min=1
    )
    kv_offload_disk_bytes: int = option(0, "A disk behind that.", min=0)
    kv_bytes_per_token: int | None = option(None, "By default the calibration's.", min=1)
    disk_bandwidth: float | None = option(
        None, "GB a second, to read and to write; by default the calibration's, or 3."
    )
    disk_latency: float | None = option(
        None, "Milliseconds of each block; by default the calibration's, or 0.1."
    )
    load: str = option(
        "cheaper", "always, or cheaper: read from the disk only what takes longer to compute."
    )

    def bytes_per_token(self, model: StepTimeModel) -> int:
        """Raises InvalidParameterError if nothing says it."""
        found = self.kv_bytes_per_token or model.about.get("kv_bytes_per_token")
        if found is None:
            raise InvalidParameterError(
                "the calibration has no kv_bytes_per_token: give --kv-bytes-per-token"
            )
        if not is_int(found, 1):
            raise InvalidParameterError(
                "the calibration's kv_bytes_per_token must be an integer of at least 1, "
                f"got {shown(found)}"
            )
        return found

    def of(self, config: Mapping[str, Any], model: StepTimeModel) -> tier_options.Tiers:
        """In blocks of an engine. Raises InvalidParameterError."""
        block_bytes = self.bytes_per_token(model) * config["block_size"]
        disk = model.about.get("disk", {})
        if not isinstance(disk, dict):
            raise InvalidParameterError(
                f"the calibration's disk must be a JSON object, got {shown(disk)}"
            )
        figures = {f"disk_{name}": disk[name] for name in ("bandwidth", "latency") if name in disk}
        if self.disk_bandwidth is not None:
            figures["disk_bandwidth"] = self.disk_bandwidth * GB
        if self.disk_latency is not None:
            figures["disk_latency"] = self.disk_latency / 1000
        return tier_options.Tiers(
            (self.kv_offload_bytes or 0) // block_bytes,
            self.kv_offload_disk_bytes // block_bytes,
            block_bytes,
            load=self.load,
            **figures,
        )


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The options of prefill workers and decode workers."""

    prefill_replicas: int = option(
        0, "Run it with so many engines that compute prompts alone, too.", min=0
    )
    decode_replicas: int = option(0, "And so many that decode; --replicas is the sum.", min=0)
    link_bandwidth: float = option(50.0, "GB a second, of each engine.")
    link_latency: float = option(1.0, "Milliseconds of each transfer.")

    def of(self, bytes_per_token: int) -> role_options.Roles:
        """Raises InvalidParameterError."""
        return role_options.Roles(
            self.prefill_replicas,
            self.decode_replicas,
            bytes_per_token,
            self.link_bandwidth * GB,
            self.link_latency / 1000,
        )


class Job(NamedTuple):
    """One column: what runs a trace, and what its first requests do."""

    run: Callable[[Iterable[TraceRequest], Metrics], Simulation]
    spans: Spans
    plain: str | None = None
    """The column beside which it is judged."""


def make_jobs(
    configs: Mapping[str, Mapping[str, Any]],
    model: StepTimeModel,
    engines: Engines,
    tiers: Tiers,
    roles: Roles,
    num_drawn: int,
) -> dict[str, Job]:
    """By name, in order. Of --scheduler all, tiers and roles are V1's alone, and drafts have
    neither.

    Raises InvalidParameterError.
    """
    found: dict[str, Job] = {}
    for policy, config in configs.items():
        spans = Spans(num_drawn)
        found[policy] = Job(partial(_plain, config, model, engines, spans), spans)
    chosen = [policy for policy, config in configs.items() if "acceptance" not in config]
    for policy in chosen if engines.scheduler != "all" else chosen[:1]:
        config = configs[policy]
        if tiers.kv_offload_bytes is not None:
            spans = Spans(num_drawn)
            run = partial(_tiered, config, model, engines, spans, tiers.of(config, model))
            found[f"{policy}+tiers"] = Job(run, spans)
        if roles.prefill_replicas or roles.decode_replicas:
            spans = Spans(num_drawn)
            of = roles.of(tiers.bytes_per_token(model))
            if of.num_prefill + of.num_decode != engines.replicas:
                raise InvalidParameterError(
                    f"--replicas must be {of.num_prefill + of.num_decode}, the engines of both "
                    f"roles, got {engines.replicas}"
                )
            name = f"{policy}, {of.num_prefill}P+{of.num_decode}D"
            found[name] = Job(partial(_apart, config, model, engines, spans, of), spans, policy)
    return found


def _plain(
    config: Mapping[str, Any],
    model: StepTimeModel,
    engines: Engines,
    spans: Spans,
    trace: Iterable[TraceRequest],
    metrics: Metrics,
) -> Simulation:
    def make(*args: Any, **options: Any) -> Replica:
        replica = Replica(*args, **options)
        spans.watch(replica)
        return replica

    return simulate(
        trace,
        config,
        model,
        num_replicas=engines.replicas,
        routing=engines.routing,
        metrics=metrics,
        replica_cls=make if spans.num_requests else Replica,
    )


def _tiered(
    config: Mapping[str, Any],
    model: StepTimeModel,
    engines: Engines,
    spans: Spans,
    tiers: tier_options.Tiers,
    trace: Iterable[TraceRequest],
    metrics: Metrics,
) -> Simulation:
    return simulate_tiers(
        trace,
        config,
        model,
        tiers,
        on_replica=spans.watch if spans.num_requests else None,
        num_replicas=engines.replicas,
        routing=engines.routing,
        metrics=metrics,
    )


def _apart(
    config: Mapping[str, Any],
    model: StepTimeModel,
    engines: Engines,
    spans: Spans,
    roles: role_options.Roles,
    trace: Iterable[TraceRequest],
    metrics: Metrics,
) -> Simulation:
    return role_fleet.simulate_roles(
        trace,
        config,
        model,
        roles,
        routing=engines.routing,
        metrics=metrics,
        on_replica=spans.watch if spans.num_requests else None,
        on_transfer=spans.add,
    )


def lines_beyond(runs: Mapping[str, Simulation], jobs: Mapping[str, Job]) -> Iterator[str]:
    """What the table does not have: blocks that moved, transfers, and which fleet wins."""
    for name, run in runs.items():
        moved = run.report.get("tiers")
        if moved:
            yield f"{name}: " + ", ".join(f"{n:,} blocks {what}" for what, n in moved.items())
        of_roles = run.report.get("roles")
        if of_roles:
            busy = [
                f"{role} workers busy {of_roles[f'{role}_busy']:.0%}"
                for role in ("prefill", "decode")
            ]
            transfer = of_roles["transfer"]
            seconds = ", ".join(f"{p} {transfer[p]:.3g} s" for p in ("p50", "p99") if transfer[p])
            yield f"{name}: {', '.join(busy)}; transfers {seconds or 'none'}"
        plain = jobs[name].plain
        if plain is not None:
            yield from verdict(runs[plain].report, run.report)
