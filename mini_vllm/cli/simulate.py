"""mini-vllm simulate: the schedulers against an arrival trace, without a model."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from mini_vllm import __version__
from mini_vllm.cli.common import busy, console
from mini_vllm.errors import InvalidParameterError, is_int, shown
from mini_vllm.observe.files import make_folder, printable, read_lines, read_text, write_file
from mini_vllm.simulator import fleet
from mini_vllm.simulator import plots as drawing
from mini_vllm.simulator.fleet import (
    BALANCE_ABS_THRESHOLD,
    BALANCE_REL_THRESHOLD,
    CACHE_THRESHOLD,
    ROUTINGS,
    Simulation,
    policy_config,
    policy_names,
)
from mini_vllm.simulator.metrics import SLO, Metrics, QuantileSketch, RequestRecord
from mini_vllm.simulator.step_time import StepTimeModel
from mini_vllm.simulator.workload import FORMATS, TraceRequest, lognormal_lengths, scale_rate, synthetic

CALIBRATIONS = Path(__file__).parent.parent / "simulator" / "calibrations"
BUNDLED = sorted(path.stem for path in CALIBRATIONS.glob("*.json"))
MAX_REQUESTS = 10_000_000
MAX_CALIBRATION_BYTES = 1 << 20
ROUTING_HELP = (
    f"{', '.join(ROUTINGS)}. prefix_aware: to the replica with the longest cached prefix, if it is more than "
    f"{CACHE_THRESHOLD:.0%} of the prompt. To the least loaded one, as SGLang's router does, when the busiest has more "
    f"than {BALANCE_ABS_THRESHOLD} requests more than the idlest, and {BALANCE_REL_THRESHOLD:g} times as many. A "
    "replica that has served no request yet is used before a busy one."
)
ACCEPTANCE_HELP = (
    "Simulate drafts, too, each right with this probability if those before it are: beside every scheduler that is "
    "named, or beside v1. To make drafts takes no time."
)
SWEEP = (0.5, 0.75, 1.0, 1.25, 1.5)  # the rates of --plots, as shares of the rate that is asked for


def simulate(
    trace: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Arrivals from this file.")] = None,
    format: Annotated[str, typer.Option(help=f"Of the file: {', '.join(FORMATS)}.")] = "auto",
    poisson: Annotated[float | None, typer.Option(help="Or arrivals at random, so many a second.")] = None,
    burstiness: Annotated[float, typer.Option(help="Of --poisson: below 1 they come in bursts.")] = 1.0,
    input_len: Annotated[float, typer.Option(help="Of --poisson: mean prompt tokens.")] = 1024,
    output_len: Annotated[float, typer.Option(help="Of --poisson: mean output tokens.")] = 256,
    length_cv: Annotated[float, typer.Option(help="Of --poisson: coefficient of variation of the lengths.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of --poisson.")] = 0,
    num_requests: Annotated[
        int | None, typer.Option(min=1, max=MAX_REQUESTS, help="Only the first of them; of --poisson 1,000.")
    ] = None,
    rate_scale: Annotated[float, typer.Option(help="Let them arrive so many times as fast.")] = 1.0,
    scheduler: Annotated[str, typer.Option(help=f"all, or some of {','.join(policy_names())}.")] = "all",
    calibration: Annotated[str, typer.Option(help=f"A file of calibrate, or {', '.join(BUNDLED)}.")] = BUNDLED[0],
    block_size: Annotated[int | None, typer.Option(min=1, help="By default the calibration's, as all below.")] = None,
    num_kv_blocks: Annotated[int | None, typer.Option(min=2, help="KV blocks, the null block included.")] = None,
    max_model_len: Annotated[int | None, typer.Option(min=1, help="Most tokens of a request.")] = None,
    max_num_seqs: Annotated[int | None, typer.Option(min=1, help="Most requests running at once.")] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option(min=1, help="The token budget of one step.")] = None,
    no_prefix_caching: Annotated[bool, typer.Option("--no-prefix-caching", help="Share no blocks.")] = False,
    acceptance: Annotated[float | None, typer.Option(help=ACCEPTANCE_HELP)] = None,
    num_speculative_tokens: Annotated[int | None, typer.Option(min=1, max=999, help="Of --acceptance, 4.")] = None,
    slo_ttft: Annotated[float, typer.Option(help="Seconds to the first token of a good request.")] = 2.0,
    slo_itl: Annotated[float, typer.Option(help="Seconds between two tokens of a good request.")] = 0.1,
    replicas: Annotated[int, typer.Option(min=1, help="How many engines.")] = 1,
    routing: Annotated[str, typer.Option(help=ROUTING_HELP)] = "round_robin",
    out: Annotated[Path | None, typer.Option(dir_okay=False, help="Write a JSON line for every request here.")] = None,
    plots: Annotated[Path | None, typer.Option(file_okay=False, help="Draw load.png and timeline.png here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run schedulers against a trace of arrivals, without a model.

    Scheduler and KV cache manager are the real ones; how long a step takes comes from a calibration. Latencies are in
    seconds. Goodput counts requests whose TTFT is within --slo-ttft and of whose gaps 99 % are within --slo-itl; by
    TPOT it is the mean of the gaps that has to be. The figures are of the whole run, with its beginning and its end.
    """
    if format not in FORMATS:
        raise InvalidParameterError(f"format must be one of {list(FORMATS)}, got {shown(format)}")
    model = load_calibration(calibration)
    engine = {
        "block_size": block_size,
        "num_blocks": num_kv_blocks,
        "max_model_len": max_model_len,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max_num_batched_tokens,
        "enable_prefix_caching": not no_prefix_caching,
    }
    config = engine_config(model, engine)
    drafts = {"acceptance": acceptance, "num_speculative_tokens": num_speculative_tokens}
    configs = configs_of(scheduler, config, drafts)
    if (trace is None) == (poisson is None):
        raise InvalidParameterError("simulate: give a trace or --poisson, and not both")
    slo = SLO(slo_ttft, slo_itl)
    if plots:
        drawing.check_matplotlib()
        make_folder(plots)

    def arrivals() -> Iterator[TraceRequest]:
        if trace:
            return islice(read_file(trace, format), num_requests)
        lengths = lognormal_lengths(input_len, output_len, length_cv)
        return synthetic(poisson or 0, num_requests or 1000, lengths, burstiness=burstiness, seed=seed)

    def run(policy: str, scale: float, on_finished: Callable[[RequestRecord], object] | None = None) -> Simulation:
        with busy(f"simulating {policy}, rate x {scale:g}"):
            requests, metrics = scale_rate(arrivals(), scale), Metrics(slo, on_finished)
            chosen = configs[policy]
            return fleet.simulate(requests, chosen, model, num_replicas=replicas, routing=routing, metrics=metrics)

    records: dict[str, list[RequestRecord]] = {policy: [] for policy in configs}
    runs = {policy: run(policy, rate_scale, records[policy].append if out else None) for policy in configs}
    lengths = {"input_len": input_len, "output_len": output_len, "length_cv": length_cv}
    drawn = {"poisson": poisson, "burstiness": burstiness, **lengths, "seed": seed}
    source: dict[str, Any] = {"trace": printable(trace)} if trace else drawn
    about = {
        "arrivals": {**source, "num_requests": num_requests, "rate_scale": rate_scale},
        "steps": {"calibration": calibration, **{name: model.about.get(name) for name in ("kind", "model", "machine")}},
        "engine": {"version": __version__, **config, **drafts, "replicas": replicas, "routing": routing},
        "slo": {"ttft": slo.ttft, "itl": slo.itl},
        "quantile_error": QuantileSketch.RELATIVE_ERROR,
    }
    show(runs, about, as_json)
    if out:
        write_file(out, "".join(lines_of(records)))
    if plots:
        title = f"{printable(calibration)}, {model.about.get('kind', 'of unknown origin')} step times"
        sweeps = {policy: {x: run(policy, x * rate_scale).report for x in SWEEP} for policy in configs}
        draw(plots, runs, sweeps, title)


ENGINE_LIMITS = {"block_size": 1, "num_blocks": 2, "max_model_len": 1, "max_num_seqs": 1, "max_num_batched_tokens": 1}


def load_calibration(name: str) -> StepTimeModel:
    """A bundled calibration, or a file. Raises InvalidParameterError."""
    path = CALIBRATIONS / f"{name}.json" if name in BUNDLED else Path(name)
    if name not in BUNDLED and not os.path.exists(name):
        raise InvalidParameterError(f"calibration {shown(name)} is neither a file nor one of {BUNDLED}")
    text = read_text(path, MAX_CALIBRATION_BYTES)
    try:
        return StepTimeModel.from_json(text)
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{printable(path)}: {error}") from error


def engine_config(model: StepTimeModel, given: Mapping[str, Any]) -> dict[str, Any]:
    """The engine of the calibration, with what is given in its place. Raises InvalidParameterError for a gap."""
    engine = model.about.get("engine", {})
    if not isinstance(engine, dict):
        raise InvalidParameterError(f"the calibration's engine must be a JSON object, got {shown(engine)}")
    for name, least in ENGINE_LIMITS.items():
        if name in engine and not is_int(engine[name], least):
            value = shown(engine[name])
            raise InvalidParameterError(f"the calibration's {name} must be an integer of at least {least}, got {value}")
    config = {name: engine[name] for name in ENGINE_LIMITS if name in engine}
    config |= {name: value for name, value in given.items() if value is not None}
    missing = [name for name in given if name not in config and name != "max_model_len"]
    if missing:
        raise InvalidParameterError(f"the calibration names no engine: give {', '.join(missing)}")
    return config


def configs_of(scheduler: str, config: Mapping[str, Any], drafts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By name, the configuration of each policy; then the same with drafts, which of "all" is V1's alone."""
    policies = policy_names() if scheduler == "all" else [name.strip() for name in scheduler.split(",")]
    configs = {policy: policy_config(policy, config) for policy in policies}
    given = {name: value for name, value in drafts.items() if value is not None}
    drafting = () if drafts["acceptance"] is None else policies if scheduler != "all" else policies[:1]
    return configs | {f"{policy}+drafts": {**configs[policy], **given} for policy in drafting}


def read_file(path: Path, format: str = "auto") -> Iterator[TraceRequest]:
    """The requests of a trace file, read as they are asked for. Raises InvalidParameterError that names the line."""
    is_empty = True
    try:
        for request in FORMATS[format](read_lines(path)):
            yield request
            is_empty = False
        if is_empty:
            raise InvalidParameterError("there is no request in it")
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{printable(path)}, {error}") from error


def figures(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The figures of a report as a table shows them, each behind its name."""
    yield "goodput", f"{report['goodput']:.2f}"
    yield "good %", f"{100 * report['good_share']:.1f}"
    yield "good % by TPOT", f"{100 * report['good_share_by_tpot']:.1f}"
    for name in ("ttft", "itl", "tpot", "e2e"):
        for percentile in ("p50", "p90", "p99"):
            value = report[name][percentile]
            yield f"{name.upper()} {percentile}", "" if value is None else f"{value:.3g}"
    yield "preempted", f"{report['preemptions']:,}"
    yield "copied", f"{report['copied_blocks']:,}"
    yield "hit %", f"{100 * report['prefix_hit_rate']:.1f}"
    yield "KV %", f"{100 * report['kv_cache_usage']['mean']:.0f}"
    yield "tokens/s", f"{report['output_tokens_per_s']:,.0f}"
    yield "makespan", f"{report['makespan']:,.1f}"
    yield "refused", f"{report['refused']:,}"
    yield "requests per replica", " ".join(map(str, report["requests_per_replica"]))


def show(runs: Mapping[str, Simulation], about: Mapping[str, Any], as_json: bool) -> None:
    """Print the reports, and what was simulated, as a table or as one JSON object."""
    if as_json:
        reports = {policy: run.report for policy, run in runs.items()}
        typer.echo(json.dumps({"about": about, "reports": reports}, indent=2))
        return
    table = Table("figure", *runs, box=None)
    for row in zip(*(figures(run.report) for run in runs.values()), strict=True):
        table.add_row(row[0][0], *(text for _, text in row))
    for column_of_table in table.columns[1:]:
        column_of_table.justify = "right"
    console().print(table)
    console().print("\n".join(told(about)), style="dim", markup=False, highlight=False)


def told(about: Mapping[str, Any]) -> Iterator[str]:
    """What was simulated, in a line for each part of it."""
    for part in ("arrivals", "steps", "engine"):
        values = (f"{name} {value}" for name, value in about[part].items() if value is not None)
        yield f"{part}: {', '.join(values)}"
    limits = f"TTFT within {about['slo']['ttft']:g} s, gaps or TPOT within {about['slo']['itl']:g} s"
    yield f"good: {limits}; quantiles are exact to {100 * about['quantile_error']:g} %"
    yield "run: one, from an empty engine to the last answer; no steady state"


def lines_of(records: Mapping[str, Iterable[RequestRecord]]) -> Iterator[str]:
    """A JSON line for each request of each run, in order of arrival."""
    for policy, of_policy in records.items():
        for record in sorted(of_policy, key=lambda record: record.index):
            yield json.dumps({"scheduler": policy, **asdict(record)}) + "\n"


def draw(
    folder: Path, runs: Mapping[str, Simulation], sweeps: Mapping[str, Mapping[float, Mapping[str, Any]]], title: str
) -> None:
    """Write the two pictures."""
    drawing.plot_load(folder / "load.png", sweeps, title)
    drawing.plot_timelines(folder / "timeline.png", {policy: run.timeline for policy, run in runs.items()}, title)
    console(stderr=True).print(f"wrote load.png and timeline.png in {printable(folder)}", style="dim", markup=False)
