"""What the pages conclude from simulations: each sentence with the comparisons that it rests on.

    python tools/book/conclusions.py             simulate, and print how each comparison comes out: some minutes
    python tools/book/conclusions.py --write     and write the table to benchmarks/results/conclusions.md

A figure comes from a steady state (tools/steady_state.py) of three seeds. It is simulated with so many
requests of each seed, and again with more than three times as many (NUM_REQUESTS); half as many of long prompts. A
comparison has to hold at both lengths, and the 95 % intervals have to leave no doubt. A p99 has no interval: each of
the three runs has to be below each of the other three. test_conclusions.py tries each sentence again, and looks
whether its page still says it.
"""

import math
import re
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from mini_vllm.load.workload import lognormal_lengths  # noqa: E402
from mini_vllm.simulator.fleet import policy_config  # noqa: E402
from mini_vllm.simulator.metrics import SLO  # noqa: E402
from mini_vllm.simulator.step_time import StepTimeModel  # noqa: E402
from tools.book.load import CALIBRATION, INPUT_LEN, LENGTH_CV, OUTPUT_LEN, SEEDS  # noqa: E402
from tools.steady_state import Interval, Spread, SteadyState, random_traces, steady_state  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "conclusions.md"
NUM_REQUESTS = (3000, 10_000)  # of a seed; of LONG ones half as many
BY_DAY = 500  # too few for the intervals and the growth, and enough for the order of the means


class Load(NamedTuple):
    """One simulated H100 under arrivals at random."""

    scheduler: str
    rate: float  # requests a second
    budget: int = 2048
    num_blocks: int | None = None  # of 16 tokens; None: what the card has room for
    lengths: tuple[int, int, float] = (INPUT_LEN, OUTPUT_LEN, LENGTH_CV)  # means of prompt and answer, and their cv
    slo: SLO = SLO()

    def __str__(self) -> str:
        prompt, answer, _ = self.lengths
        text = (
            f"{self.scheduler}, {self.rate:g}/s, budget {self.budget:,}, prompts of {prompt:,}, answers of {answer:,}"
        )
        if self.num_blocks is not None:
            text += f", {self.num_blocks:,} blocks"
        return text if self.slo == SLO() else f"{text}, limits {self.slo.ttft:g} s and {self.slo.itl:g} s"


States = Mapping[Load, SteadyState]


class Less(NamedTuple):
    """The first load's figure, `times` times, is below the second one's: their intervals or runs do not overlap."""

    figure: str
    less: Load
    more: Load
    times: float = 1.0

    @property
    def loads(self) -> tuple[Load, ...]:
        return self.less, self.more

    def __str__(self) -> str:
        less = f"{self.times:g} × " if self.times > 1 else ""
        more = f"{1 / self.times:g} × " if self.times < 1 else ""
        return f"{less}{self.figure} ({self.less}) < {more}{self.figure} ({self.more})"

    def found(self, states: States) -> tuple[bool, str]:
        less, more = (figure(states[load], self.figure) for load in self.loads)
        return is_below(type(less)(*(self.times * value for value in less)), more), f"{less} and {more}"


class Alike(NamedTuple):
    """The intervals or runs of both loads overlap: the simulation does not tell which one is better."""

    figure: str
    one: Load
    other: Load

    @property
    def loads(self) -> tuple[Load, ...]:
        return self.one, self.other

    def __str__(self) -> str:
        return f"{self.figure} ({self.one}) ≈ {self.figure} ({self.other})"

    def found(self, states: States) -> tuple[bool, str]:
        one, other = (figure(states[load], self.figure) for load in self.loads)
        return not (is_below(one, other) or is_below(other, one)), f"{one} and {other}"


class Bound(NamedTuple):
    """The whole interval of a load's figure lies between two limits."""

    figure: str
    load: Load
    low: float = -math.inf
    high: float = math.inf

    @property
    def loads(self) -> tuple[Load, ...]:
        return (self.load,)

    def __str__(self) -> str:
        low = f"{self.low:g} ≤ " if self.low > -math.inf else ""
        high = f" ≤ {self.high:g}" if self.high < math.inf else ""
        return f"{low}{self.figure} ({self.load}){high}"

    def found(self, states: States) -> tuple[bool, str]:
        mean, width = found = states[self.load].figures[self.figure]
        return self.low <= mean - width and mean + width <= self.high, str(found)


class Capacity(NamedTuple):
    """Whether the load is over the capacity."""

    load: Load
    is_over: bool

    @property
    def loads(self) -> tuple[Load, ...]:
        return (self.load,)

    def __str__(self) -> str:
        return f"{self.load}: {'over' if self.is_over else 'within'} the capacity"

    def found(self, states: States) -> tuple[bool, str]:
        state = states[self.load]
        return state.is_over_capacity == self.is_over, f"growth {100 * state.growth.mean:.1f} %"


class Conclusion(NamedTuple):
    """A sentence of a page."""

    page: str  # below docs/
    sentence: str
    rests_on: tuple[Less | Alike | Bound | Capacity, ...]


def figure(state: SteadyState, name: str) -> Interval | Spread:
    return state.tails[name] if name in state.tails else state.figures[name]


def is_below(one: Interval | Spread, other: Interval | Spread) -> bool:
    assert type(one) is type(other)
    return one.is_below(other)  # type: ignore[arg-type]


def judged(state: SteadyState, slo: SLO) -> SteadyState:
    """A state that was simulated with the default limits, with others: only shares of good requests depend on them."""
    if slo == SLO():
        return state
    by_gaps, by_tpot = state.good_shares(slo)
    return replace(state, figures={"good_share": by_gaps, "good_share_by_tpot": by_tpot}, tails={})


def simulate_load(load: Load, num_requests: int) -> SteadyState:
    """The steady state of a load at the default limits, from num_requests requests of each seed."""
    model = StepTimeModel.from_json(CALIBRATION.read_text(encoding="utf-8"))
    config: dict[str, Any] = {**model.about["engine"], "max_num_batched_tokens": load.budget}
    if load.num_blocks is not None:
        config |= {"num_blocks": load.num_blocks, "max_model_len": 16_384}
    traces = random_traces(load.rate, num_requests, lognormal_lengths(*load.lengths), SEEDS)
    return steady_state(traces, policy_config(load.scheduler, config), model)


def says(page: str, sentence: str) -> bool:
    """Whether a page says it, whatever its line breaks, its emphasis and its links."""
    text = re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", page.replace("*", ""))
    return " ".join(sentence.split()) in " ".join(text.split())


DENSE, LONG = (1150, 250, 0.9), (12_000, 350, 1.0)  # about the means of the Azure and of the Mooncake conversations
V1_512, V1_2048 = Load("v1", 16, 512), Load("v1", 16, 2048)
FIRST_512, FIRST_2048 = Load("prefill_first", 16, 512), Load("prefill_first", 16, 2048)
V1, FIRST = (Load(name, 14, lengths=DENSE) for name in ("v1", "prefill_first"))
V1_LONG, FIRST_LONG = (Load(name, 0.5, lengths=LONG) for name in ("v1", "prefill_first"))
V1_LOOSE, FIRST_LOOSE = (each._replace(slo=SLO(2.0, 0.25)) for each in (V1_LONG, FIRST_LONG))
SMALL, SWAP = (Load(name, 11, num_blocks=4001, lengths=DENSE) for name in ("v1", "v1+swap"))
LOAD_PAGE, CHAPTER = "load.md", "phase-03-continuous-batching-scheduler/schedulers.md"

CONCLUSIONS = (
    Conclusion(
        LOAD_PAGE,
        "With a budget of 256 V1 is over its capacity at 18 requests a second. With 2,048 it is not.",
        (Capacity(Load("v1", 18, 256), True), Capacity(Load("v1", 18, 2048), False)),
    ),
    Conclusion(
        LOAD_PAGE,
        "Go from a budget of 512 to 2,048: TTFT falls, and ITL p99 rises.",
        (Less("ttft p50", V1_2048, V1_512), Less("ttft p99", V1_2048, V1_512), Less("itl p99", V1_512, V1_2048)),
    ),
    Conclusion(
        LOAD_PAGE,
        "Prefill first has the lower TTFT p50 and the lower ITL p50.",
        (Less("ttft p50", FIRST_512, V1_512), Less("itl p50", FIRST_512, V1_512)),
    ),
    Conclusion(
        LOAD_PAGE, "But its ITL p99 is more than ten times that of V1.", (Less("itl p99", V1_512, FIRST_512, 10),)
    ),
    Conclusion(LOAD_PAGE, "With 512 the ITL p99 is higher than with 2,048.", (Less("itl p99", FIRST_2048, FIRST_512),)),
    Conclusion(
        CHAPTER,
        "Prefill first has the lower median TTFT, and its p99 gap is more than three times as long as V1's.",
        (Less("ttft p50", FIRST, V1), Less("itl p99", V1, FIRST, 3)),
    ),
    Conclusion(CHAPTER, "The whole answer also takes longer.", (Less("e2e p50", V1, FIRST),)),
    Conclusion(
        CHAPTER,
        "By gaps, more than 95 % of requests are good under V1, and fewer than 10 % under prefill first.",
        (Bound("good_share", V1, low=0.95), Bound("good_share", FIRST, high=0.1)),
    ),
    Conclusion(
        CHAPTER,
        "By TPOT, more than 95 % are good under both.",
        (Bound("good_share_by_tpot", V1, low=0.95), Bound("good_share_by_tpot", FIRST, low=0.95)),
    ),
    Conclusion(
        CHAPTER,
        "With a limit of 0.1 s prefill first has more good requests by gaps; with 0.25 s V1 has more.",
        (Less("good_share", V1_LONG, FIRST_LONG), Less("good_share", FIRST_LOOSE, V1_LOOSE)),
    ),
    Conclusion(
        CHAPTER,
        "By TPOT the two cannot be told apart.",
        (Alike("good_share_by_tpot", V1_LONG, FIRST_LONG), Alike("good_share_by_tpot", V1_LOOSE, FIRST_LOOSE)),
    ),
    Conclusion(
        CHAPTER,
        "V1's p99 gap is longer here than that of prefill first.",
        (Less("itl p99", FIRST_LONG, V1_LONG),),
    ),
    Conclusion(
        CHAPTER,
        "Whether the victims are swapped or recomputed, the times cannot be told apart.",
        tuple(Alike(figure, SMALL, SWAP) for figure in ("ttft p50", "ttft p99", "itl p99", "e2e p99")),
    ),
)


def of_means(states: States) -> States:
    """The same without what is doubtful: intervals of no width, and tails of all runs together."""
    return {
        load: replace(
            state,
            figures={name: Interval(each.mean, 0.0) for name, each in state.figures.items()},
            tails={name: Spread(each.mean, each.mean, each.mean) for name, each in state.tails.items()},
        )
        for load, state in states.items()
    }


def simulate_all(num_requests: int) -> States:
    """Every load that a conclusion rests on. Loads that differ in their limits are simulated once."""
    loads = {load for each in CONCLUSIONS for basis in each.rests_on for load in basis.loads}
    simulated = {}
    for load in {each._replace(slo=SLO()) for each in loads}:
        simulated[load] = simulate_load(load, num_requests // 2 if load.lengths == LONG else num_requests)
    return {load: judged(simulated[load._replace(slo=SLO())], load.slo) for load in loads}


def main() -> int:
    """The exit status: 1 if a comparison does not hold."""
    with ProcessPoolExecutor() as pool:
        states = dict(zip(NUM_REQUESTS, pool.map(simulate_all, NUM_REQUESTS), strict=True))
    lines, all_hold = [], True
    for page, sentence, rests_on in CONCLUSIONS:
        lines += ["", f"## {sentence}", "", f"In docs/{page}.", ""]
        lines += [
            "| comparison | " + " | ".join(f"{n:,} requests a seed" for n in NUM_REQUESTS) + " |",
            "|---|---:|---:|",
        ]
        for basis in rests_on:
            found = [basis.found(states[n]) for n in NUM_REQUESTS]
            lines.append(f"| {basis} | " + " | ".join(text + ("" if ok else " NO") for ok, text in found) + " |")
            all_hold &= all(ok for ok, _ in found)
    text = INTRODUCTION.format(date=date.today().isoformat()) + "\n".join(lines) + "\n"
    print(text)
    if "--write" in sys.argv and all_hold:
        RESULTS.write_text(text, encoding="utf-8")
    return 0 if all_hold else 1


INTRODUCTION = """# What is concluded from simulations

Each sentence with the comparisons that it rests on. The schedulers and KV cache managers are the real ones. Requests
arrive at random, at three seeds. Step times are derived from an H100's data sheet for Llama-3.1-8B (not measured).
The lengths of prompts and answers are means. A good request has its first token within 2 s and its gaps, or their mean
(TPOT), within 0.1 s, where no other limits are named.

Of prompts of 12,000 tokens there are half as many. Times are in seconds; ± is the half-width of a 95 % interval. A p99
has no interval; the lowest and the highest of the three runs stand in brackets. "<" holds if the intervals, or the
runs, do not overlap, at both lengths; "≈" holds if they do.

{date}; simulated, so any machine gives the same. Again: `python tools/book/conclusions.py --write`.
"""

if __name__ == "__main__":
    sys.exit(main())
