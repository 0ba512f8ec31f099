"""Labs of debugging: what an engine with a bug left behind, made for the lab's folder and shown to the learner.

proof/<lab>/evidence.py has evidence(case): called while the bug of the case is in the engine, it gives a trace or a
text.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from labkit.breaking import listed_versions
from labkit.catalog import Lab
from labkit.graft import grafted, load
from labkit.honest import HonestModel, next_token
from labkit.implementations import find_answer, seeded_bugs
from mini_vllm.observe.timeline import render_requests, render_timeline
from mini_vllm.observe.trace import TraceRecorder
from mini_vllm.params import SamplingParams
from mini_vllm.policies.registry import make_scheduler
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import Step
from mini_vllm.step import KVPlan

Record = dict[str, Any]


def make(lab: Lab, case: str) -> tuple[Path, str]:
    """The file that is the evidence of a case, and its text."""
    cases = listed_versions(lab)["cases"]
    bug = find_answer(seeded_bugs, cases[case]["bug"])
    run = load(lab.proof / "evidence.py").evidence
    with grafted([bug.part]):
        left = run(case)
    is_text = isinstance(left, str)
    file = lab.folder / "evidence" / f"{case}.{'txt' if is_text else 'json'}"
    return file, left if is_text else json.dumps(left) + "\n"


def honest_trace(scenario: Record, max_steps: int) -> Record:
    """A scenario with a model that reads the slots, until all have ended or max_steps steps are over; or an error.

    The trace has also what each request would have said without company ("alone").
    """
    scheduler = make_scheduler(scenario["config"])
    recorder, model = TraceRecorder(scheduler), HonestModel(scheduler)
    arrivals = sorted(scenario["requests"], key=lambda spec: int(spec["arrival_step"]))
    error = {}
    for step in range(max_steps):
        while arrivals and arrivals[0]["arrival_step"] <= step:
            spec = arrivals.pop(0)
            params = SamplingParams(max_tokens=spec["max_tokens"], ignore_eos=True)
            scheduler.add_request(Request(spec["id"], spec["prompt"], params, priority=spec.get("priority", 0)))
        if not scheduler.has_unfinished_requests():
            if not arrivals:
                break
            continue
        try:
            recorder.before_schedule()
            decided = Step(scheduler.schedule(), KVPlan())
            recorder.after_schedule(decided, step)
            sampled = model.execute(decided.output)
            recorder.after_update(decided, sampled, scheduler.update_from_output(decided.output, sampled))
        except Exception as raised:
            error = {"error": f"{type(raised).__name__}: {raised}"}
            break
    trace = recorder.to_trace(scenario["name"], scenario["requests"])
    del trace["totals"]["final_free_queue"]
    return {**trace, "config": scenario["config"], "alone": dict(map(alone, scenario["requests"])), **error}


def alone(spec: Record) -> tuple[str, list[int]]:
    """The id of a request, and what it says without company."""
    tokens = list(spec["prompt"])
    for _ in range(spec["max_tokens"]):
        tokens.append(next_token(spec["id"], tokens))
    return spec["id"], tokens[len(spec["prompt"]) :]


def is_current(lab: Lab, case: str) -> bool:
    """Whether the committed evidence is what the bug leaves."""
    file, text = make(lab, case)
    return file.exists() and file.read_text(encoding="utf-8") == text


def tell(lab: Lab, case: str, out: Console) -> None:
    """Print the evidence of a case: a text as it is, a trace as a timeline and step by step."""
    file = next(iter((lab.folder / "evidence").glob(f"{case}.*")))
    text = file.read_text(encoding="utf-8")
    out.print(f"\n--- case {case}: {file.relative_to(lab.root).as_posix()}\n", markup=False)
    if file.suffix != ".json":
        out.print(text, markup=False)
        return
    trace = json.loads(text)
    out.print(render_timeline(trace, width=out.width, ascii_only=False), crop=False)
    out.print(render_requests(trace))
    for line in lines_of(trace):
        out.print(line, markup=False)


def lines_of(trace: Record) -> Iterator[str]:
    """A trace in words: its requests, and each step."""
    config = ", ".join(f"{name} {value}" for name, value in trace["config"].items())
    yield f"config    {config}"
    for spec in trace["requests"]:
        yield (
            f"{spec['id']:9} comes before step {spec.get('arrival_step', 0)}, says {spec['max_tokens']} tokens; "
            f"prompt {words(spec['prompt'])}"
        )
    for step in trace["steps"]:
        yield from lines_of_step(step)
    yield ""
    for name, tokens in trace["outputs"].items():
        yield f"{name:9} has said      {words(tokens)}"
        yield f"          and alone it says {words(trace['alone'][name])}"
    if "error" in trace:
        yield f"then      {trace['error']}"


def lines_of_step(step: Record) -> Iterator[str]:
    """One step: what it computes, in which blocks, and what comes of it."""
    hits = dict([*step.get("new", []), *step.get("resumed", [])])
    yield f"\nstep {step['step']}"
    for name, n in step["sched"]:
        start = step["computed"][name]
        cached = f", {hits[name]} of them found in the cache" if hits.get(name) else ""
        tables = step.get("blocks", {}), step.get("tables", {})
        blocks = ""
        if name in tables[1] or name in hits:
            blocks = f"; its blocks are {words(tables[1].get(name) or tables[0][name])}"
        elif name in tables[0]:
            blocks = f"; new blocks {words(tables[0][name])}"
        yield f"  {name:7} computes {n} after {start}{cached}{blocks}"
    for what, key in (("gives way", "preempted"), ("running", "running"), ("waiting", "waiting")):
        if step.get(key):
            yield f"  {what:9} {words(step[key])}"
    said = ", ".join(f"{name} {words(tokens)}" for name, tokens in step.get("sampled", {}).items())
    yield f"  said      {said or '-'}"
    for name, reason in step.get("finished", []):
        yield f"  {name} ends: {reason}"
    yield (
        f"  free      {step['free_sched']} blocks after schedule(), {step.get('free', '?')} after the step; "
        f"{step.get('cached', '?')} contents can be found"
    )


def words(things: list[Any]) -> str:
    return " ".join(map(str, things))
