"""What the pages conclude from simulations, each sentence with the comparison that it rests on.

    python book/conclusions.py             all of them, a line each
    python book/conclusions.py --write     and into benchmarks/results/conclusions.md

A comparison is of two steady states (mini_vllm/simulator/steady_state.py): three seeds, and again with twice as many
requests. It holds if the intervals do not overlap in either. test_conclusions.py does the same for each sentence, and
looks whether the page still says it.
"""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from book.load import CALIBRATION, INPUT_LEN, LENGTH_CV, OUTPUT_LEN, SEEDS  # noqa: E402
from mini_vllm.simulator.fleet import policy_config  # noqa: E402
from mini_vllm.simulator.metrics import SLO  # noqa: E402
from mini_vllm.simulator.steady_state import SteadyState, random_traces, steady_state  # noqa: E402
from mini_vllm.simulator.step_time import StepTimeModel  # noqa: E402
from mini_vllm.simulator.workload import lognormal_lengths  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "conclusions.md"
NUM_REQUESTS = (2500, 5000)  # of a seed; the second is twice the first


class Load(NamedTuple):
    """One simulated H100 under arrivals at random. The limits of a good request are SLO()'s."""

    scheduler: str
    rate: float  # requests a second
    budget: int = 2048
    num_blocks: int | None = None  # of 16 tokens; None: what the card has room for
    lengths: tuple[int, int, float] = (INPUT_LEN, OUTPUT_LEN, LENGTH_CV)  # means of prompt and answer, and their cv


class Less(NamedTuple):
    """The figure of the first load is below that of the second one."""

    figure: str
    less: Load
    more: Load


class Over(NamedTuple):
    """Whether the load is over the capacity."""

    load: Load
    is_over: bool


class Conclusion(NamedTuple):
    page: str  # below docs/
    sentence: str
    rests_on: tuple[Less | Over, ...]


@cache
def simulated(load: Load, num_requests: int) -> SteadyState:
    model = StepTimeModel.from_json(CALIBRATION.read_text(encoding="utf-8"))
    config: dict[str, Any] = {**model.about["engine"], "max_num_batched_tokens": load.budget}
    if load.num_blocks is not None:
        config |= {"num_blocks": load.num_blocks, "max_model_len": 16_384}
    traces = random_traces(load.rate, num_requests, lognormal_lengths(*load.lengths), SEEDS)
    return steady_state(traces, policy_config(load.scheduler, config), model, slo=SLO())
