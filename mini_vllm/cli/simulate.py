"""mini-vllm simulate: the schedulers against an arrival trace, without a model."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import typer

from mini_vllm import __version__
from mini_vllm.cli.common import busy, console, option
from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.load.plots import check_matplotlib
from mini_vllm.load.workload import (
    FORMATS,
    TraceRequest,
    lognormal_lengths,
    read_file,
    scale_rate,
    synthetic,
)
from mini_vllm.observe.files import make_folder, printable, write_file
from mini_vllm.simulator import fleet
from mini_vllm.simulator.calibration import BUNDLED, engine_config, load_calibration
from mini_vllm.simulator.fleet import ROUTINGS, Simulation, policy_configs, policy_names
from mini_vllm.simulator.metrics import SLO, Metrics, QuantileSketch, RequestRecord
from mini_vllm.simulator.plots import plot_load, plot_timelines
from mini_vllm.simulator.report import lines_of, table_of, told
from mini_vllm.simulator.routing import (
    BALANCE_ABS_THRESHOLD,
    BALANCE_REL_THRESHOLD,
    CACHE_THRESHOLD,
)
from mini_vllm.simulator.step_time import StepTimeModel

MAX_REQUESTS = 10_000_000
ROUTING_HELP = (
    f"{', '.join(ROUTINGS)}. prefix_aware: to the replica with the longest cached prefix, if it is "
    "more than "
    f"{CACHE_THRESHOLD:.0%} of the prompt. To the least loaded one, as SGLang's router does, when "
    "the busiest has more "
    f"than {BALANCE_ABS_THRESHOLD} requests more than the idlest, and {BALANCE_REL_THRESHOLD:g} "
    "times as many. A replica that has served no request yet is used before a busy one."
)
ACCEPTANCE_HELP = (
    "Simulate drafts, too, each right with this probability if those before it are: beside every "
    "scheduler that is named, or beside v1. To make drafts takes no time."
)
SWEEP = (0.5, 0.75, 1.0, 1.25, 1.5)  # the rates of --plots, as shares of the rate that is asked for


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """The options that say which requests arrive, and when."""

    trace: Path | None = option(None, "Arrivals from this file.", exists=True, dir_okay=False)
    format: str = option("auto", f"Of the file: {', '.join(FORMATS)}.")
    poisson: float | None = option(None, "Or arrivals at random, so many a second.")
    burstiness: float = option(1.0, "Of --poisson: below 1 they come in bursts.")
    input_len: float = option(1024, "Of --poisson: mean prompt tokens.")
    output_len: float = option(256, "Of --poisson: mean output tokens.")
    length_cv: float = option(1.0, "Of --poisson: coefficient of variation of the lengths.")
    seed: int = option(0, "Of --poisson.")
    num_requests: int | None = option(
        None, "Only the first of them; of --poisson 1,000.", min=1, max=MAX_REQUESTS
    )
    rate_scale: float = option(1.0, "Let them arrive so many times as fast.")

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InvalidParameterError(
                f"format must be one of {list(FORMATS)}, got {shown(self.format)}"
            )
        if (self.trace is None) == (self.poisson is None):
            raise InvalidParameterError("simulate: give a trace or --poisson, and not both")

    def requests(self, share: float = 1.0) -> Iterator[TraceRequest]:
        """The arrivals, at this share of the rate that is asked for.

        Raises InvalidParameterError.
        """
        return scale_rate(self._unscaled(), share * self.rate_scale)

    def _unscaled(self) -> Iterator[TraceRequest]:
        if self.trace:
            return islice(read_file(self.trace, self.format), self.num_requests)
        lengths = lognormal_lengths(self.input_len, self.output_len, self.length_cv)
        num_requests = self.num_requests or 1000
        return synthetic(
            self.poisson or 0, num_requests, lengths, burstiness=self.burstiness, seed=self.seed
        )

    def about(self) -> dict[str, Any]:
        """What the report says of them."""
        names = ("poisson", "burstiness", "input_len", "output_len", "length_cv", "seed")
        source = (
            {"trace": printable(self.trace)}
            if self.trace
            else {name: getattr(self, name) for name in names}
        )
        return {**source, "num_requests": self.num_requests, "rate_scale": self.rate_scale}


@dataclass(frozen=True, kw_only=True)
class Engines:
    """The options that say what serves them. What is None is the calibration's."""

    scheduler: str = option("all", f"all, or some of {','.join(policy_names())}.")
    calibration: str = option(BUNDLED[0], f"A file of calibrate, or {', '.join(BUNDLED)}.")
    block_size: int | None = option(None, "By default the calibration's, as all below.", min=1)
    num_kv_blocks: int | None = option(None, "KV blocks, the null block included.", min=2)
    max_model_len: int | None = option(None, "Most tokens of a request.", min=1)
    max_num_seqs: int | None = option(None, "Most requests running at once.", min=1)
    max_num_batched_tokens: int | None = option(None, "The token budget of one step.", min=1)
    no_prefix_caching: bool = option(False, "Share no blocks.", "--no-prefix-caching")
    acceptance: float | None = option(None, ACCEPTANCE_HELP)
    num_speculative_tokens: int | None = option(None, "Of --acceptance, 4.", min=1, max=999)
    slo_ttft: float = option(2.0, "Seconds to the first token of a good request.")
    slo_itl: float = option(0.1, "Seconds between two tokens of a good request.")
    replicas: int = option(1, "How many engines.", min=1)
    routing: str = option("round_robin", ROUTING_HELP)

    def config(self, model: StepTimeModel) -> dict[str, Any]:
        """One engine of the calibration, with what is given in its place.

        Raises InvalidParameterError.
        """
        given = {
            "block_size": self.block_size,
            "num_blocks": self.num_kv_blocks,
            "max_model_len": self.max_model_len,
            "max_num_seqs": self.max_num_seqs,
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "enable_prefix_caching": not self.no_prefix_caching,
        }
        return engine_config(model, given)

    def drafts(self) -> dict[str, Any]:
        """Whether and how drafts are simulated."""
        return {
            "acceptance": self.acceptance,
            "num_speculative_tokens": self.num_speculative_tokens,
        }

    def about(self, model: StepTimeModel) -> dict[str, Any]:
        """What the report says of them."""
        origin = {name: model.about.get(name) for name in ("kind", "model", "machine")}
        return {
            "steps": {"calibration": self.calibration, **origin},
            "engine": {
                "version": __version__,
                **self.config(model),
                **self.drafts(),
                "replicas": self.replicas,
                "routing": self.routing,
            },
            "slo": {"ttft": self.slo_ttft, "itl": self.slo_itl},
            "quantile_error": QuantileSketch.RELATIVE_ERROR,
        }


def simulate(
    arrivals: Arrivals,
    engines: Engines,
    out: Path | None = option(None, "Write a JSON line for every request here.", dir_okay=False),
    plots: Path | None = option(None, "Draw load.png and timeline.png here.", file_okay=False),
    as_json: bool = option(False, "Print one JSON object.", "--json"),
) -> None:
    """Run schedulers against a trace of arrivals, without a model.

    Scheduler and KV cache manager are the real ones; how long a step takes comes from a
    calibration. Latencies are in seconds. Goodput counts requests whose TTFT is within --slo-ttft
    and of whose gaps 99 % are within --slo-itl; by TPOT it is the mean of the gaps that has to be.
    The figures are of the whole run, with its beginning and its end.
    """
    model = load_calibration(engines.calibration)
    configs = policy_configs(engines.scheduler, engines.config(model), engines.drafts())
    slo = SLO(engines.slo_ttft, engines.slo_itl)
    if plots:
        check_matplotlib()
        make_folder(plots)

    def run(
        policy: str,
        share: float = 1.0,
        on_finished: Callable[[RequestRecord], object] | None = None,
    ) -> Simulation:
        with busy(f"simulating {policy}, rate x {share * arrivals.rate_scale:g}"):
            return fleet.simulate(
                arrivals.requests(share),
                configs[policy],
                model,
                num_replicas=engines.replicas,
                routing=engines.routing,
                metrics=Metrics(slo, on_finished),
            )

    records: dict[str, list[RequestRecord]] = {policy: [] for policy in configs}
    runs = {
        policy: run(policy, on_finished=records[policy].append if out else None)
        for policy in configs
    }
    show(runs, {"arrivals": arrivals.about(), **engines.about(model)}, as_json)
    if out:
        write_file(out, "".join(lines_of(records)))
    if plots:
        title = (
            f"{printable(engines.calibration)}, "
            f"{model.about.get('kind', 'of unknown origin')} "
            "step times"
        )
        plot_load(
            plots / "load.png",
            {policy: {x: run(policy, x).report for x in SWEEP} for policy in configs},
            title,
        )
        plot_timelines(
            plots / "timeline.png", {policy: runs[policy].timeline for policy in runs}, title
        )
        console(stderr=True).print(
            f"wrote load.png and timeline.png in {printable(plots)}", style="dim", markup=False
        )


def show(runs: Mapping[str, Simulation], about: Mapping[str, Any], as_json: bool) -> None:
    """Print the reports, and what was simulated, as a table or as one JSON object."""
    if as_json:
        reports = {policy: run.report for policy, run in runs.items()}
        typer.echo(json.dumps({"about": about, "reports": reports}, indent=2))
        return
    console().print(table_of(runs))
    console().print("\n".join(told(about)), style="dim", markup=False, highlight=False)
