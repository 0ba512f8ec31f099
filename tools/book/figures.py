"""The figures of the book are runs of the scheduler: `python tools/book/figures.py [--check]`.

docs/figures/NAME.json is a trace (fields as in mini_vllm/observe/trace.schema.json, with "caption"), which the figure
in the page draws. Its config, requests and aborts are the scenario: edit them, and this script runs it again and writes
the steps. A new file needs no more than these. In a chapter the figure stands as

    <div class="kv-timeline" data-src="../figures/NAME.json" markdown="1">

    <!-- figure: NAME -->
    (the same run as text, written by this script, for readers without the figure)
    <!-- /figure -->

    </div>

A trace that has "times" was recorded from a server, by record_serving.py. Here its decisions have to be those of the
scheduler alone. A trace that has "recorded_in" is the one of its name in that file of traces/: vLLM decided it, and
this script takes its steps from there.

--check writes nothing; exit status 1 if a figure or its text is not what the scheduler does.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from mini_vllm.observe.timeline import render_timeline  # noqa: E402
from mini_vllm.observe.trace import run_trace  # noqa: E402
from mini_vllm.spec_decode.scheduler import SpeculativeScheduler  # noqa: E402

TRACES = ROOT / "docs" / "figures"
FIGURE = re.compile(r"<!-- figure: (?P<name>[\w-]+) -->\n.*?<!-- /figure -->", re.DOTALL)
WIDTH = 78
SCENARIO = ("caption", "config", "requests", "aborts")  # fields of a trace
DECISIONS = (
    *("step", "sched", "computed", "running", "free_sched", "new", "resumed", "preempted", "waiting"),
    *("blocks", "tables"),
)


def trace_of(name: str) -> dict[str, Any]:
    """Run the scenario of a trace again, or read the one that vLLM ran.

    Raises FileNotFoundError if there is none of that name, ValueError if the scheduler decides otherwise than recorded.
    """
    recorded: dict[str, Any] = json.loads((TRACES / f"{name}.json").read_text(encoding="utf-8"))
    if "recorded_in" in recorded:
        return {**decided_by_vllm(recorded), **{field: recorded[field] for field in ("caption", "recorded_in")}}
    scenario = {field: recorded[field] for field in SCENARIO if field in recorded}
    classes = {"scheduler_cls": SpeculativeScheduler} if recorded["config"].get("speculative") else {}
    trace = {**run_trace({"name": name, **scenario}, **classes), "caption": recorded["caption"]}
    if "times" not in recorded:
        return trace
    if decisions_of(recorded) != decisions_of(trace):
        raise ValueError(f"docs/figures/{name}.json is stale: python tools/book/record_serving.py records it again")
    return recorded


def decided_by_vllm(recorded: dict[str, Any]) -> dict[str, Any]:
    """The trace of the same name in traces/."""
    for line in (ROOT / recorded["recorded_in"]).read_text(encoding="utf-8").splitlines():
        trace: dict[str, Any] = json.loads(line)
        if trace["name"] == recorded["name"]:
            return trace
    raise ValueError(f"{recorded['recorded_in']} has no trace {recorded['name']!r}")


def decisions_of(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """What the scheduler has decided in each step, as JSON has it. Which tokens came of it is the model's affair."""
    steps: list[dict[str, Any]] = json.loads(json.dumps(trace["steps"]))
    return [{name: step.get(name) for name in DECISIONS} for step in steps]


def text_of(name: str) -> str:
    """The figure for a chapter as it is read without the site: its caption and the run in characters."""
    trace = trace_of(name)
    lines = render_timeline(trace, width=WIDTH).plain.rstrip().splitlines()
    body = "\n".join(line.rstrip() for line in [str(trace["caption"]), "", *lines])
    return f"<!-- figure: {name} -->\n```text\n{body}\n```\n<!-- /figure -->"


def wanted() -> dict[Path, str]:
    """Every file that has a figure, as it must be."""
    files = {TRACES / f"{file.stem}.json": json.dumps(trace_of(file.stem)) + "\n" for file in TRACES.glob("*.json")}
    for file in sorted((ROOT / "docs").rglob("*.md")):
        files[file] = FIGURE.sub(lambda m: text_of(m["name"]), file.read_text(encoding="utf-8"))
    return files


def main() -> int:
    """The exit status."""
    try:
        files = wanted()
    except ValueError as error:
        print(error)
        return 1
    stale = [file for file, text in files.items() if not file.exists() or file.read_text(encoding="utf-8") != text]
    for file in stale:
        print(f"{file.relative_to(ROOT).as_posix()}: {'stale' if '--check' in sys.argv else 'written'}")
        if "--check" not in sys.argv:
            file.parent.mkdir(exist_ok=True)
            file.write_text(files[file], encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
