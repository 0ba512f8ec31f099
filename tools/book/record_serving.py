"""The recorded run of the chapter on serving: `python tools/book/record_serving.py [--check]`. Needs torch.

The five requests of docs/figures/serving.json go through the loop that the engine process runs, with the bundled
model. The front is here, too: commands and events are encoded and decoded as between two processes, texts and stop
strings are those of the OutputProcessor, and times those that the metrics count. Only the clock is made: it ticks once
a step, so that every machine records the same. Commands reach the loop one step after what they answer, as they do
when a step takes longer than the front needs.

Writes docs/figures/serving.json, which the figure draws, and tools/book/serving_run.md, the tables of the chapter.
--check writes nothing; exit status 1 if they are not what the loop does. figures.py, which needs no torch, compares the
decisions of the recorded run with those of the scheduler alone.
"""

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from mini_vllm.config import EngineConfig  # noqa: E402
from mini_vllm.frontend.front import Front  # noqa: E402
from mini_vllm.frontend.input_processor import InputProcessor, ModelLimits  # noqa: E402
from mini_vllm.frontend.output_processor import RequestOutput  # noqa: E402
from mini_vllm.observe.listener import StepListener  # noqa: E402
from mini_vllm.observe.trace import TraceRecorder  # noqa: E402
from mini_vllm.params import SamplingParams  # noqa: E402
from mini_vllm.serving.engine_process import EngineLoop  # noqa: E402
from mini_vllm.serving.messages import Add, Command, Event, Finish, Ready, StepDone, Stop  # noqa: E402
from mini_vllm.serving.metrics import ServerMetrics  # noqa: E402
from mini_vllm.step import TokenDelta  # noqa: E402

TRACE = ROOT / "docs" / "figures" / "serving.json"
TABLES = ROOT / "tools" / "book" / "serving_run.md"
BUCKETS = ("prefill", "decode", "resumed")
NBSP = "\N{NO-BREAK SPACE}"


class Clock(StepListener):
    """It ticks when a step is over: what step k decides happens at k, and what it brings at k + 1."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> float:
        return float(self.now)

    def after_update(self, *args: Any, **kwargs: Any) -> None:
        self.now += 1


class FrontProcess:
    """The front process of the recording: it answers what the engine said before the step that is under way."""

    def __init__(self, scenario: dict[str, Any], clock: Clock) -> None:
        self.clock = clock
        self.specs = {spec["id"]: spec for spec in scenario["requests"]}
        self.leaves = {each["id"]: each["step"] for each in scenario["aborts"] if "stop" not in self.specs[each["id"]]}
        self.metrics = ServerMetrics("tiny")
        self.times: dict[str, dict[str, Any]] = {}
        self.texts: dict[str, list[str]] = {}
        self.reasons: dict[str, str] = {}
        self.rows: list[dict[str, Any]] = []  # of the table of steps
        self.ended_before: dict[int, list[str]] = {}  # by step: whose Finish "abort" it found
        self._events: list[StepDone] = []  # said by the engine, and not yet read
        self._stopped: list[str] = []
        self._encode, self._decode_command = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Command).decode
        self._decode_event = msgspec.msgpack.Decoder(Event).decode
        self._num_command_bytes = 0

    # --- to the engine

    def take(self, wait: bool) -> list[Command]:
        """What the loop finds before the step that follows."""
        step = self.clock.now
        self._read_until(step - 1)
        commands: list[Command] = []
        if self._stopped:
            commands.append(Finish(self._stopped, "stop"))
            self._stopped = []
        for name, when in self.leaves.items():
            if when == step:
                commands.append(Finish(self.outputs.abort(name), "abort"))
                self.metrics.ended(name, "abort")
                self.ended_before[step] = [name]
        commands += [self._add(spec) for spec in self.specs.values() if spec["arrival_step"] == step]
        if wait and not commands:
            commands.append(Stop())
        encoded = [self._encode(command) for command in commands]
        self._num_command_bytes = sum(map(len, encoded))
        self._names = [name_of(command) for command in commands]
        return [self._decode_command(data) for data in encoded]

    def _add(self, spec: dict[str, Any]) -> Command:
        name = spec["id"]
        messages = [{"role": "user", "content": spec["prompt_text"]}]
        prompt = self.front.input_processor.apply_chat_template(messages)
        assert prompt == spec["prompt"], (name, prompt)
        params = SamplingParams(
            temperature=0.0,
            max_tokens=spec["max_tokens"],
            ignore_eos=spec["ignore_eos"],
            stop=spec.get("stop", ()),
            output_kind="delta",
        )
        requests = self.front.add_request(name, prompt, params, self._tell, {})
        self.texts[name] = []
        self.times[name] = {"arrival": self.clock.now, "scheduled": None, "tokens": []}
        self.metrics.started(requests, name)
        return Add.of(requests)

    # --- from the engine

    def send(self, event: Event) -> None:
        """What the loop says; it is read while the next step runs."""
        data = self._encode(event)
        read = self._decode_event(data)
        if isinstance(read, Ready):
            limits = ModelLimits(read.vocab_size, read.max_model_len, read.num_slots)
            config = EngineConfig("tiny")
            self.front = Front(InputProcessor(config, limits), config.seed, self.clock)
            self.outputs = self.front.output_processor
        elif isinstance(read, StepDone):
            self._events.append(read)
            self.rows.append(self._row(read, len(data)))

    def _read_until(self, when: int) -> None:
        while self._events and len(self.rows) - len(self._events) < when:
            done = self._events.pop(0)
            self.metrics.stepped(done)
            for delta in done.deltas:
                self._note(delta)
            self._stopped += self.outputs.process(done.deltas)[1]

    def _note(self, delta: TokenDelta) -> None:
        if self.outputs.has_request(delta.request_id):
            self.metrics.took(delta.request_id, delta)
            times = self.times[delta.request_id]
            times["scheduled"] = whole(delta.scheduled_time)
            times["tokens"].append(whole(delta.time))

    def _tell(self, output: RequestOutput) -> None:
        (choice,) = output.outputs
        name = output.request_id
        self.texts[name].append(choice.text)
        if choice.finish_reason is not None:
            self.reasons[name] = choice.finish_reason
            self.metrics.ended(name, choice.finish_reason)

    def finish(self) -> None:
        """Read what is left."""
        self._read_until(len(self.rows) + 1)

    # --- what the chapter shows

    def _row(self, done: StepDone, num_bytes: int) -> dict[str, Any]:
        assert done.plan is not None, "the recording has a step for each message"
        plan = done.plan.participants
        row: dict[str, Any] = {
            bucket: [name if b == "decode" else f"{name}{NBSP}{n}" for name, b, n in plan if b == bucket]
            for bucket in BUCKETS
        }
        tokens = [delta.request_id for delta in done.deltas if delta.tokens]
        return row | {
            "commands": self._names,
            "command_bytes": self._num_command_bytes,
            "tokens": tokens,
            "bytes": num_bytes,
        }


def whole(time: float | None) -> int:
    """A time of the made clock, which has no halves."""
    assert time is not None
    assert time == int(time)
    return int(time)


def name_of(command: Command) -> str:
    """As the table shows it."""
    if isinstance(command, Stop):
        return "Stop"
    kind = "Add" if isinstance(command, Add) else f"Finish {command.reason}"
    return f"{kind} {' '.join(command.request_ids)}"


def record() -> tuple[dict[str, Any], str]:
    """The trace and the tables of a new run."""
    scenario = json.loads(TRACE.read_text(encoding="utf-8"))
    sizes = scenario["config"]
    names = ("block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")
    config = EngineConfig(
        "tiny",
        device="cpu",
        dtype="float32",
        num_kv_blocks=sizes["num_blocks"],
        **{name: sizes[name] for name in names},
    )
    clock = Clock()
    loop, front = EngineLoop(config, clock), FrontProcess(scenario, clock)
    recorder = TraceRecorder(loop.core.scheduler)
    loop.core.listeners += [recorder, clock]
    loop.run(front.take, front.send)
    front.finish()
    check_metrics(front)
    trace = recorder.to_trace("serving", scenario["requests"], scenario["aborts"])
    for step, ended in front.ended_before.items():
        trace["steps"][step]["aborted_before"] = ended
    trace |= {"config": sizes, "caption": scenario["caption"], "times": front.times}
    return json.loads(json.dumps(trace)), tables_of(front)


def check_metrics(front: FrontProcess) -> None:
    """The times that the tables show are those that the metrics have counted."""
    lines = [line.rpartition(" ") for line in front.metrics.render().decode().splitlines() if not line.startswith("#")]
    counted = {name.partition("{")[0]: float(value) for name, _, value in lines}
    figures = [figures_of(times) for times in front.times.values()]
    for metric, name in (
        ("time_to_first_token", "ttft"),
        ("inter_token_latency", "itl"),
        ("request_queue_time", "queue"),
        ("request_prefill_time", "prefill"),
        ("request_decode_time", "decode"),
    ):
        values = [value for each in figures for value in (each[name] if name == "itl" else [each[name]])]
        assert counted[f"vllm:{metric}_seconds_sum"] == sum(values), metric
        assert counted[f"vllm:{metric}_seconds_count"] == len(values), metric


def figures_of(times: dict[str, Any]) -> dict[str, Any]:
    """The times of a request in steps."""
    arrival, scheduled, tokens = times["arrival"], times["scheduled"], times["tokens"]
    return {
        "queue": scheduled - arrival,
        "prefill": tokens[0] - scheduled,
        "ttft": tokens[0] - arrival,
        "itl": [after - before for before, after in pairwise(tokens)],
        "decode": tokens[-1] - tokens[0],
    }


def tables_of(front: FrontProcess) -> str:
    """serving_run.md."""
    lines = ["# The run of docs/figures/serving.json", "", "Written by tools/book/record_serving.py.", ""]
    lines += ["| request | arrives at | queue | prefill | TTFT | ITL | ends with | the client reads |"]
    lines += ["|---|---:|---:|---:|---:|---|---|---|"]
    for name, times in front.times.items():
        each = figures_of(times)
        gaps = each["itl"]
        same = f"{len(gaps)}{NBSP}×{NBSP}1" if set(gaps) == {1} else ", ".join(map(str, gaps))
        text = "".join(front.texts[name])
        lines.append(
            f"| `{name}` | {times['arrival']} | {each['queue']} | {each['prefill']} | {each['ttft']} | {same} "
            f"| {front.reasons[name]} | {text.strip()} |"
        )
    lines += [
        "",
        "| step | commands found before it | bytes in | prefill | decode | resumed | new tokens for | bytes out |",
    ]
    lines += ["|---:|---|---:|---|---|---|---|---:|"]
    for step, row in enumerate(front.rows):
        lines.append(
            f"| {step} | {', '.join(row['commands'])} | {row['command_bytes'] or ''} | "
            + " | ".join(", ".join(row[bucket]) for bucket in BUCKETS)
            + f" | {', '.join(row['tokens'])} | {row['bytes']} |"
        )
    pieces = " · ".join(f"`{text}`" if text else "nothing" for text in front.texts["b"])
    lines += ["", f"The pieces of `b`, one for each delta: {pieces}."]
    return "\n".join(lines) + "\n"


def main() -> int:
    """The exit status."""
    trace, tables = record()
    wanted = {TRACE: json.dumps(trace) + "\n", TABLES: tables}
    stale = [file for file, text in wanted.items() if not file.exists() or file.read_text(encoding="utf-8") != text]
    for file in stale:
        print(f"{file.relative_to(ROOT).as_posix()}: {'stale' if '--check' in sys.argv else 'written'}")
        if "--check" not in sys.argv:
            file.write_text(wanted[file], encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
