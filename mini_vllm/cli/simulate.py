"""mini-vllm simulate: the schedulers against an arrival trace, without a model."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import typer

from mini_vllm.cli.common import busy, console, is_ascii_only, option
from mini_vllm.cli.simulated.engines import Engines
from mini_vllm.cli.simulated.jobs import Job, Roles, Tiers, lines_beyond, make_jobs
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
from mini_vllm.simulator.calibration import load_calibration
from mini_vllm.simulator.fleet import Simulation, policy_configs
from mini_vllm.simulator.metrics import SLO, Metrics, RequestRecord
from mini_vllm.simulator.plots import plot_load, plot_timelines
from mini_vllm.simulator.report import lines_of, table_of, told
from mini_vllm.simulator.timeline.render import render

MAX_REQUESTS = 10_000_000
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


def simulate(
    arrivals: Arrivals,
    engines: Engines,
    tiers: Tiers,
    roles: Roles,
    out: Path | None = option(None, "Write a JSON line for every request here.", dir_okay=False),
    plots: Path | None = option(None, "Draw load.png and timeline.png here.", file_okay=False),
    timeline: int = option(0, "Draw what so many requests do.", min=0, max=100),
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
    jobs = make_jobs(configs, model, engines, tiers, roles, timeline)
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
            return jobs[policy].run(arrivals.requests(share), Metrics(slo, on_finished))

    records: dict[str, list[RequestRecord]] = {policy: [] for policy in jobs}
    runs = {
        policy: run(policy, on_finished=records[policy].append if out else None) for policy in jobs
    }
    about = {"arrivals": arrivals.about(), **engines.about(model)}
    show(runs, jobs, about | {"tiers": asdict(tiers), "roles": asdict(roles)}, as_json)
    if out:
        write_file(out, "".join(lines_of(records)))
    if plots:
        origin = model.about.get("kind", "of unknown origin")
        title = f"{printable(engines.calibration)}, {origin} step times"
        plot_load(
            plots / "load.png",
            {policy: {x: run(policy, x).report for x in SWEEP} for policy in jobs},
            title,
        )
        draw_timelines(plots, runs, title)


def draw_timelines(plots: Path, runs: Mapping[str, Simulation], title: str) -> None:
    """The second picture, and a word about both."""
    timelines = {policy: run.timeline for policy, run in runs.items()}
    plot_timelines(plots / "timeline.png", timelines, title)
    console(stderr=True).print(
        f"wrote load.png and timeline.png in {printable(plots)}", style="dim", markup=False
    )


def show(
    runs: Mapping[str, Simulation],
    jobs: Mapping[str, Job],
    about: Mapping[str, Any],
    as_json: bool,
) -> None:
    """Print the reports, and what was simulated, as a table or as one JSON object."""
    if as_json:
        reports = {policy: run.report for policy, run in runs.items()}
        typer.echo(json.dumps({"about": about, "reports": reports}, indent=2))
        return
    console().print(table_of(runs))
    lines = [*lines_beyond(runs, jobs), *told(about)]
    console().print("\n".join(lines), style="dim", markup=False, highlight=False)
    for policy, job in jobs.items():
        if job.spans.num_requests:
            console().print(f"\n{policy}", markup=False)
            console().print(render(job.spans, ascii_only=is_ascii_only(console())))
