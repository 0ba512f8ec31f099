"""`lab run 07`: the time of each step on a device of a few milliseconds, without one step ahead and with it.

The tokens are those of the bundled model, and the order in which steps begin and end is the engine's. The time is
counted, not measured: every step takes DEVICE_MS of the device, and the host takes BEGIN_MS to decide it and END_MS to
take in its tokens. So the picture is the same on every machine.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from labkit.cli.payoff import MakeEngine, Trace, watch
from mini_vllm.observe.listener import StepListener
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import Step

DEVICE_MS = 5
BEGIN_MS, END_MS = 2, 1  # of the host
QUESTIONS = ("What is a KV block?", "What is preemption?", "What is a prefix hit?")
NUM_TOKENS = 80  # of an answer, at most
NUM_BLOCKS = 12  # so few that a request is preempted
SHOWN_MS = 60
IDLE = "·"

Work = tuple[int, int, int]  # from, to, in milliseconds, and the number of the step


class Times:
    """Two clocks, of the host and of the device, moved by the order in which steps begin and end."""

    def __init__(self) -> None:
        self.host: list[Work] = []
        self.device: list[Work] = []
        self._steps: dict[Hashable, tuple[int, int]] = {}  # in flight: number, and when the device is done with it
        self._now = 0  # of the host
        self._num_begun = 0

    def begin(self, step: Hashable, *, computes: bool = True) -> None:
        """The host decides a step; the device begins it when it is free."""
        self._num_begun += 1
        self._work(BEGIN_MS, self._num_begun)
        end = self._now
        if computes:
            start = max(self._now, self.device[-1][1] if self.device else 0)
            end = start + DEVICE_MS
            self.device.append((start, end, self._num_begun))
        self._steps[step] = self._num_begun, end

    def end(self, step: Hashable) -> None:
        """The host waits for the device, and takes the step's tokens in."""
        number, end = self._steps.pop(step)
        self._now = max(self._now, end)
        self._work(END_MS, number)

    def _work(self, duration: int, number: int) -> None:
        self.host.append((self._now, self._now + duration, number))
        self._now += duration

    @property
    def num_steps(self) -> int:
        return len(self.device)

    @property
    def total(self) -> int:
        """Milliseconds until both have ended."""
        return max(self._now, self.device[-1][1] if self.device else 0)

    @property
    def busy(self) -> int:
        """Milliseconds in which the device works."""
        return DEVICE_MS * len(self.device)


class Watch(StepListener):
    """Tells the clocks of an engine's steps."""

    def __init__(self) -> None:
        self.times = Times()

    def after_schedule(self, step: Step) -> None:
        self.times.begin(step, computes=bool(step.output.num_scheduled_tokens))

    def after_update(
        self, step: Step, sampled_token_ids: Mapping[str, Sequence[int]], finished: Iterable[Request], **_: bool
    ) -> None:
        self.times.end(step)


def one_step_ahead(out: Console, make: MakeEngine, question: str | None, options: dict[str, Any]) -> Trace:
    """The same questions without a step ahead and with it: what host and device do in each millisecond."""
    asked = QUESTIONS if question is None else (question,)
    options = options | {"num_kv_blocks": NUM_BLOCKS}
    plain = {name: value for name, value in options.items() if name != "async_scheduling"}
    before, _, old = answer(make(**plain), asked)
    times, texts, trace = answer(make(**options), asked)
    for text, question in zip(texts, asked, strict=True):
        out.print(f"{question}\n  {text.strip()}\n", markup=False)
    out.print(
        f"A device of {DEVICE_MS} ms a step, a host of {BEGIN_MS} ms to decide it and {END_MS} ms to take in its "
        f"tokens. The first {SHOWN_MS} ms, a digit for each, which is the last one of the step's number:\n"
    )
    for name, run in (("one step at a time", before), ("one step ahead", times)):
        out.print(f"{name}\n  host    {lane(run.host)}\n  device  {lane(run.device)}\n", markup=False)
    out.print(table_of({"one step at a time": before, "one step ahead": times}))
    same = old["outputs"] == trace["outputs"]
    out.print("\nThe tokens are the same." if same else "\nWRONG: one step ahead the tokens are other ones.")
    out.print(
        f"Requests were preempted {trace['totals']['preemptions']} times. A stop token is not foreseen, so the request "
        "that it ends has one step too many, whose token is dropped.\n"
    )
    return trace


def answer(llm: Any, questions: Sequence[str]) -> tuple[Times, list[str], Trace]:
    """The times of the steps, the answers, and the trace."""
    from mini_vllm import SamplingParams

    recorder, clocks = watch(llm), Watch()
    llm.engine.listeners.append(clocks)
    asked = [[{"role": "user", "content": question}] for question in questions]
    outputs = llm.chat(asked, SamplingParams(temperature=0.0, max_tokens=NUM_TOKENS))
    return clocks.times, [output.outputs[0].text for output in outputs], recorder.to_trace("lab run")


def lane(work: Sequence[Work]) -> str:
    """A character for each of the first milliseconds: the step that is worked on, or nothing."""
    marks = [IDLE] * SHOWN_MS
    for begin, end, number in work:
        for ms in range(begin, min(end, SHOWN_MS)):
            marks[ms] = str(number % 10)
    return "".join(marks)


def table_of(runs: Mapping[str, Times]) -> Table:
    """Steps and milliseconds of each run, and the share in which the device works."""
    table = Table(box=None, pad_edge=False)
    for head in ("", "steps", "ms", "ms a step", "device busy"):
        table.add_column(head, justify="right" if head else "left")
    for name, run in runs.items():
        row = (run.num_steps, run.total, f"{run.total / run.num_steps:.2f}", f"{run.busy / run.total:.0%}")
        table.add_row(name, *map(str, row))
    return table
