"""The reports of simulated runs as a reader sees them: a table, what was simulated, and a line for
each request.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rich.table import Table

from mini_vllm.simulator.fleet import Simulation
from mini_vllm.simulator.metrics import RequestRecord


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


def table_of(runs: Mapping[str, Simulation]) -> Table:
    """The figures of all runs, side by side."""
    table = Table("figure", box=None)
    for policy in runs:
        table.add_column(policy, justify="right")
    for row in zip(*(figures(run.report) for run in runs.values()), strict=True):
        table.add_row(row[0][0], *(text for _, text in row))
    return table


def told(about: Mapping[str, Any]) -> Iterator[str]:
    """What was simulated, in a line for each part of it."""
    for part in ("arrivals", "steps", "engine"):
        values = (f"{name} {value}" for name, value in about[part].items() if value is not None)
        yield f"{part}: {', '.join(values)}"
    limits = (
        f"TTFT within {about['slo']['ttft']:g} s, gaps or TPOT within {about['slo']['itl']:g} s"
    )
    yield f"good: {limits}; quantiles are exact to {100 * about['quantile_error']:g} %"
    yield "run: one, from an empty engine to the last answer; no steady state"


def lines_of(records: Mapping[str, Iterable[RequestRecord]]) -> Iterator[str]:
    """A JSON line for each request of each run, in order of arrival."""
    for policy, of_policy in records.items():
        for record in sorted(of_policy, key=lambda record: record.index):
            yield json.dumps({"scheduler": policy, **asdict(record)}) + "\n"
