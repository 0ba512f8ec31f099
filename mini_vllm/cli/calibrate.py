"""mini-vllm calibrate: measure the steps of the engine here and fit the simulator's model of a
step's time.
"""

import random
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from platform import machine, processor
from typing import TYPE_CHECKING, Any, NamedTuple

from mini_vllm.cli.common import busy, console, load_llm, option
from mini_vllm.config import EngineConfig
from mini_vllm.errors import InvalidParameterError
from mini_vllm.observe.files import printable, write_file
from mini_vllm.observe.listener import StepListener
from mini_vllm.params import SamplingParams
from mini_vllm.scheduler_interface import Step
from mini_vllm.simulator.step_time import (
    FEATURES,
    StepTimeModel,
    Work,
    fit,
    relative_errors,
    work_of,
)

if TYPE_CHECKING:
    from mini_vllm.engine.llm_engine import LLMEngine

DECODES = 8  # output tokens of every request of the grid
HELD_OUT = 3  # every third point of the grid is not fitted to, but predicted

Clock = Callable[[], float]
# of one point of the grid: what each step computed, and its seconds
Steps = tuple[list[Work], list[float]]


def calibrate(
    config: EngineConfig,
    out: Path = option(
        Path("calibration.json"), "Write the calibration to this JSON file.", dir_okay=False
    ),
    rounds: int = option(5, "Medians are over this many rounds.", min=1, max=1000),
    max_batch: int = option(64, "Requests in the largest batch.", min=1),
    cpu_time: bool = option(
        False, "Count CPU time: for a model on a CPU that others use, too.", "--cpu-time"
    ),
    note: str = option("", "The machine's name, for instance."),
    disk: Path | None = option(
        None,
        "Measure reads of KV blocks in this folder, too, for simulate's disk.",
        file_okay=False,
    ),
) -> None:
    """Measure steps of many shapes and fit a step-time model for mini-vllm simulate.

    Decodes of growing batches and contexts, chunks of prompts, and both at once. Every third shape
    is held out: the stated errors are of these. The file also says how many bytes of K and V a
    token has, which simulate's tiers and roles need.
    """
    engine = load_llm(config).engine
    grid = make_grid(engine, max_batch)
    tiers = measure_tiers(engine, disk)
    clock = time.process_time if cpu_time else time.perf_counter
    with busy(f"measuring {len(grid)} shapes, {rounds} rounds"):
        for point in grid[:: len(grid) - 1]:
            measure(engine, point)  # warm-up
        runs = [[measure(engine, point, clock) for point in grid] for _ in range(rounds)]
    fitted = fit_runs(engine, runs, note=note, clock=clock)
    model = StepTimeModel(fitted.coefficients, {**fitted.about, **tiers})
    write_file(out, model.to_json())
    screen = console()
    for name, seconds in zip(FEATURES, model.coefficients, strict=True):
        screen.print(f"{name:<14} {1e6 * seconds:>12,.4f} µs")
    errors = model.about["errors"]
    screen.print(
        f"relative error of held-out steps: median {errors['median']:.1%}, p90 {errors['p90']:.1%}"
    )
    screen.print(f"K and V of a token: {model.about['kv_bytes_per_token']:,} bytes")
    if disk:
        of_disk = model.about["disk"]
        screen.print(
            f"disk: {of_disk['bandwidth'] / 1e9:.3g} GB/s, {1e3 * of_disk['latency']:.3g} ms a read"
        )
    screen.print(f"wrote {printable(out)}", markup=False)


def measure_tiers(engine: "LLMEngine", disk: Path | None) -> dict[str, Any]:
    """What simulate's tiers have to know beside the steps. Raises InvalidParameterError."""
    from mini_vllm.worker.copy_time import kv_bytes_per_token, runner_of

    per_token = kv_bytes_per_token(runner_of(engine.executor))
    found: dict[str, Any] = {"kv_bytes_per_token": per_token}
    if disk is not None:
        from mini_vllm.worker.tiers.disk_time import measure_disk

        block_size = engine.scheduler.kv_cache_manager.block_size
        with busy("measuring reads of the disk"):
            found["disk"] = measure_disk(str(disk), per_token * block_size)._asdict()
    return found


class Point(NamedTuple):
    """A shape of the grid: a batch of equal prompts that decode, and a prompt that comes when they
    do.
    """

    batch_size: int
    prompt_len: int
    late_prompt_len: int


def make_grid(engine: "LLMEngine", max_batch: int) -> list[Point]:
    """Batches of 1, 4, 16 ... and prompts of 16, 64, 256 ... tokens, as far as the engine holds
    them.
    """
    scheduler = engine.scheduler
    longest = min(scheduler.max_model_len, scheduler.num_slots) - DECODES
    max_batch = min(max_batch, scheduler.max_num_seqs - 1)
    grid = [
        Point(1 << i, length, min(2 * length, longest))
        for i in range(0, max_batch.bit_length(), 2)
        for length in (16, 64, 256, 1024, 4096)
        if length <= longest
        and (1 << i) * (length + DECODES) + 2 * length + DECODES <= scheduler.num_slots
    ]
    if len(grid) < 2 * HELD_OUT:
        raise InvalidParameterError(
            f"a calibration needs {2 * HELD_OUT} shapes, {len(grid)} fit (max_num_seqs "
            f"{scheduler.max_num_seqs}, "
            f"max_model_len {scheduler.max_model_len}, KV cache {scheduler.num_slots} tokens)"
        )
    return grid


def fit_runs(
    engine: "LLMEngine", runs: list[list[Steps]], *, note: str, clock: Clock
) -> StepTimeModel:
    """Fit to rounds over one grid.

    The time of a step is the median over the rounds, which all take the same steps.
    """
    fitted: list[tuple[Work, float]] = []
    held_out: list[tuple[Work, float]] = []
    for index, same in enumerate(zip(*runs, strict=True)):
        steps = [
            (work, statistics.median(seconds[i] for _, seconds in same))
            for i, work in enumerate(same[0][0])
        ]
        (held_out if index % HELD_OUT == HELD_OUT - 1 else fitted).extend(steps)
    from mini_vllm.worker.copy_time import runner_of, seconds_per_block

    runner = runner_of(engine.executor)
    coefficients = (*fit(*zip(*fitted, strict=True))[:-1], seconds_per_block(runner))
    about = {
        "kind": "measured",
        "model": engine.config.model,
        "machine": note or f"{runner.device.type} {processor() or machine()}",
        "date": date.today().isoformat(),
        "clock": clock.__name__,
        "rounds": len(runs),
        "steps": {"fitted": len(fitted), "held_out": len(held_out)},
    }
    model = StepTimeModel(coefficients, about)
    errors = relative_errors(model, *zip(*held_out, strict=True))
    scheduler = engine.scheduler
    kv = scheduler.kv_cache_manager
    limits = ("max_model_len", "max_num_seqs", "max_num_batched_tokens")
    engine_config = {"num_blocks": kv.num_blocks, "block_size": kv.block_size}
    engine_config |= {name: getattr(scheduler, name) for name in limits}
    return StepTimeModel(coefficients, {**about, "errors": errors, "engine": engine_config})


class WorkListener(StepListener):
    """Notes of every step what it computes."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def after_schedule(self, step: Step) -> None:
        self.works.append(work_of(step.output, step.plan))


def measure(engine: "LLMEngine", point: Point, clock: Clock = time.perf_counter) -> Steps:
    """Run one point; of every step what it computed and the seconds that engine.step() took."""
    draw, vocabulary = random.Random(str(point)).choices, range(engine.vocab_size)
    params = SamplingParams(max_tokens=DECODES, temperature=0.0, ignore_eos=True)
    engine.scheduler.kv_cache_manager.reset_prefix_cache()
    listener = WorkListener()
    works = listener.works
    engine.listeners.append(listener)
    for index in range(point.batch_size):
        engine.add_request(f"calibrate-{index}", draw(vocabulary, k=point.prompt_len), params)
    seconds: list[float] = []
    is_late_due = True
    while engine.has_unfinished_requests():
        if is_late_due and works and works[-1][1] == works[-1][2] == point.batch_size:
            engine.add_request("calibrate-late", draw(vocabulary, k=point.late_prompt_len), params)
            is_late_due = False
        start = clock()
        engine.step()
        seconds.append(clock() - start)
    engine.listeners.remove(listener)
    return works, seconds
