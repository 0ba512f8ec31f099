"""The numbers behind docs/load.md: `python tools/book/load.py [--check]`, about half an hour of two cores.

One simulated H100 (mini_vllm/simulator, the derived calibration) serves requests that arrive at random; for every
scheduler, budget and load one point: TTFT and ITL of the steady state, or that there is none, because the load is over
the capacity. A p50 has the half-width of its interval. A p99 has none (tools/steady_state.py says why).
They are written to docs/assets/load.json, which the page's sliders move through, and a few of them as a table between
`<!-- load: RATE -->` and `<!-- /load -->`. --check runs some of the points again and writes nothing; exit status 1 if
one of them is not in the file, or the table is not from it.
"""

import json
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from mini_vllm.load.workload import lognormal_lengths  # noqa: E402
from mini_vllm.simulator.fleet import policy_config  # noqa: E402
from mini_vllm.simulator.step_time import StepTimeModel  # noqa: E402
from tools.steady_state import random_traces, steady_state  # noqa: E402

TABLE, PAGE = ROOT / "docs" / "assets" / "load.json", ROOT / "docs" / "load.md"
CALIBRATION = ROOT / "mini_vllm" / "simulator" / "calibrations" / "llama-3.1-8b-h100.json"
SCHEDULERS = ("v1", "prefill_first", "warm_first")  # single sequences: sequence_group is prefill_first
BUDGETS = (256, 512, 1024, 2048, 4096, 8192)
RATES = (1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24)
NUM_REQUESTS, SEEDS = 5000, range(3)
INPUT_LEN, OUTPUT_LEN, LENGTH_CV = 1024, 128, 1.0
SHOWN = (256, 512, 2048, 8192)  # budgets of the page's table
FIGURES = ("ttft p50", "ttft p99", "itl p50", "itl p99")
CHECKED = (("v1", 512, 8), ("prefill_first", 2048, 12))
OVER = "over capacity"

Point = list[list[float]]  # in milliseconds, in the order of FIGURES: [figure, half-width], of a p99 [figure]


def point(scheduler: str, budget: int, rate: float) -> Point | None:
    """The figures of a steady state; None if there is none."""
    model = StepTimeModel.from_json(CALIBRATION.read_text(encoding="utf-8"))
    config: dict[str, Any] = {**model.about["engine"], "max_num_batched_tokens": budget}
    lengths = lognormal_lengths(INPUT_LEN, OUTPUT_LEN, LENGTH_CV)
    traces = random_traces(rate, NUM_REQUESTS, lengths, SEEDS)
    state = steady_state(traces, policy_config(scheduler, config), model)
    if state.is_over_capacity:
        return None
    found = ([state.tails[name].mean] if name in state.tails else state.figures[name] for name in FIGURES)
    return [[float(f"{1000 * value:.3g}") for value in each] for each in found]


def row(scheduler: str, budget: int) -> list[Point | None]:
    """The points of all loads. Beyond the first that is over the capacity all are."""
    points: list[Point | None] = []
    for rate in RATES:
        points.append(None if None in points else point(scheduler, budget, rate))
    print(f"{scheduler} {budget}: {len([each for each in points if each])} of {len(RATES)} loads", flush=True)
    return points


def table_of(points: dict[str, dict[str, list[Point | None]]], rate: int) -> str:
    """The page's table of one load, as it stands between its markers."""
    lines = ["| scheduler | budget | TTFT p50 | TTFT p99 | ITL p50 | ITL p99 |", "|---|---:|---:|---:|---:|---:|"]
    for scheduler, by_budget in points.items():
        for budget in SHOWN:
            figures = by_budget[str(budget)][RATES.index(rate)]
            cells = list(map(cell, figures)) if figures else [OVER, "", "", ""]
            lines.append(f"| {scheduler} | {budget:,} | {' | '.join(cells)} |")
    return f"<!-- load: {rate} -->\n" + "\n".join(lines) + "\n<!-- /load -->"


def cell(figure: list[float]) -> str:
    mean, *width = figure
    return " ± ".join([shown(mean, 3), *(shown(each, 2) for each in width)])


def shown(milliseconds: float, digits: int) -> str:
    return f"{float(f'{milliseconds:.{digits}g}'):,.10g}"


def page_with_table(points: dict[str, dict[str, list[Point | None]]]) -> str:
    """The text of docs/load.md as it should be."""
    marked = re.compile(r"<!-- load: (\d+) -->.*?<!-- /load -->", re.DOTALL)
    return marked.sub(lambda m: table_of(points, int(m[1])), PAGE.read_text(encoding="utf-8"))


def main() -> int:
    """The exit status."""
    if "--check" in sys.argv:
        points = json.loads(TABLE.read_text(encoding="utf-8"))["points"]
        stale = [str(each) for each in CHECKED if points[each[0]][str(each[1])][RATES.index(each[2])] != point(*each)]
        if page_with_table(points) != PAGE.read_text(encoding="utf-8"):
            stale.append("the table of docs/load.md")
        for each in stale:
            print(f"docs/assets/load.json: {each} is stale")
        return 1 if stale else 0
    with ProcessPoolExecutor() as pool:
        rows = {s: {str(b): pool.submit(row, s, b) for b in BUDGETS} for s in SCHEDULERS}
        points = {s: {b: each.result() for b, each in by_budget.items()} for s, by_budget in rows.items()}
    table = {"rates": RATES, "budgets": BUDGETS, "figures": FIGURES, "points": points}
    TABLE.write_text(json.dumps(table) + "\n", encoding="utf-8")
    PAGE.write_text(page_with_table(points), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
