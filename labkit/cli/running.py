"""`lab run`: the six questions of `mini-vllm demo` on a learner's parts, in a pool that is tight.

A phase runs on the scheduler of vLLM V1; what belongs to another one is left out, by name, unless its lab is named.
Phase 04 answers one question, with a word of a list and with a call of a tool.
Without torch the bundled model runs in NumPy.
"""

import json
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from rich.console import Console

from labkit.compare import behaviour
from labkit.grade.runner import prepare, why_not_graded
from labkit.grade.watchdog import LabHang, watchdog
from labkit.labs import progress
from labkit.labs.catalog import C_COMPILER, Lab, LabkitError, find_lab, labs, phases
from labkit.labs.graft import Part, grafted
from labkit.labs.implementations import part_of
from labkit.labs.together import Reasons, by_reason, why_it_stopped
from mini_vllm.errors import shown
from mini_vllm.observe.files import check_text
from mini_vllm.observe.listener import StepListener
from mini_vllm.observe.timeline import render_requests, render_timeline
from mini_vllm.observe.trace import TraceRecorder
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import SchedulerInterface
from mini_vllm.scheduler_interface import Step

SECONDS = 120.0  # for the answers
SIZES: dict[str, Any] = {
    "block_size": 16,
    "num_kv_blocks": 30,
    "max_num_batched_tokens": 48,
}  # those of the demo: blocks run out
ENGINES: dict[str, dict[str, Any]] = {  # labs and phases of another engine than V1's, and the options that choose it
    "03.8": {"scheduler": "prefill_first"},
    "03.10": {"preemption_mode": "swap"},
    "03.11": {"scheduler": "sequence_group"},
    "04": {"structured_outputs_backend": "automaton"},
    "05": {"speculative": "ngram"},
    "05.1": {"speculative": "ngram"},
    "05.2": {"speculative": "ngram"},
    "05.3": {"speculative": "draft_model", "draft_model": "tiny"},
    "05.4": {"speculative": "ngram"},
    "05.5": {"speculative": "ngram"},
}
TERMS = ("KV block", "block table", "prefill", "decode", "preemption", "prefix hit", "token budget")


def run(phase: str, prompt: str | None, mine: str) -> int:
    """Answer, and say on which parts; draw the steps, and compare the decisions."""
    if prompt is not None:
        check_text("the prompt", prompt)
    chosen, options = choose(phase, mine)
    parts, left_out = parts_of(chosen, options)
    names = ", ".join(part.lab.id for part in parts)
    print(f"Yours: {names}." if names else "Nothing of yours is in it: this is the reference.")
    for reason, ids in by_reason(left_out).items():
        print(f"The reference's, {reason}: {', '.join(ids)}.")
    known = progress.read()
    if changed := [part.lab.id for part in parts if progress.has_changed(part.lab, known)]:
        print(f"Changed since its last green run: {', '.join(changed)}. (`lab test {' '.join(changed)}` grades it.)")
    backend = backend_for(parts)
    if backend != "auto":
        print(f"Attention runs on the back end {backend}, which has them in it.")
    for name, value in options.items():
        print(f"The engine has {name}={value!r}.")
    try:
        with grafted(parts), watchdog(SECONDS):
            answer(prompt, attention_backend=backend, **options)
    except LabHang as hang:
        raise LabkitError(
            f"The engine did not come back; it was at {hang.where or 'a line of the reference'}."
        ) from None
    except Exception as error:

        def again() -> None:
            with watchdog(SECONDS):
                run_model(Console(file=StringIO()), prompt, attention_backend=backend, **options)

        raise LabkitError(why_it_stopped(error, parts, again)) from error
    deciding = [part for part in parts if behaviour.decides(part)]
    if "scheduler" in options:
        deciding = [part for part in deciding if behaviour.scheduler_of([part]) == options["scheduler"]]
    if deciding:
        print(behaviour.summary(deciding))
        if behaviour.scheduler_of(deciding) == "v1" and not options:
            print(behaviour.beside_vllm(deciding))
    return 0


def choose(phase: str, mine: str) -> tuple[list[Lab], Mapping[str, Any]]:
    """The labs of a phase, or of all; or those before a lab that is named, with it, and its engine."""
    if "." in phase:
        named = find_lab(phase)
        every = list(labs())
        return every[: every.index(named) + 1], ENGINES.get(phase, ENGINES.get(phase[:2], {}))
    phase_id = phase.removeprefix("phase-")[:2]
    found = [lab for each in phases() if each.id == phase_id for lab in each.labs]
    if not found:
        raise LabkitError(f"There is no lab or phase {shown(phase)}. `lab` lists them.")
    return list(labs()) if mine == "all" else found, ENGINES.get(phase_id, {})


def parts_of(chosen: Sequence[Lab], options: Mapping[str, Any]) -> tuple[list[Part], Reasons]:
    """The learner's parts that run together, and of the other labs why theirs do not."""
    data, parts, left_out = progress.read(), [], {}
    for lab in chosen:
        engine = ENGINES.get(lab.id, options)
        if lab.is_break_it or C_COMPILER in lab.needs:  # no engine runs on what has a process of its own
            continue
        if why_not_graded(lab):
            left_out[lab.id] = "since this machine lacks what they need"
        elif engine != options:
            left_out[lab.id] = "for other engines (`lab run ID` takes that of a lab)"
        elif not progress.is_done(lab.id, data) or not lab.mine.exists():
            left_out[lab.id] = "since they are not done"
        else:
            try:
                prepare(lab)
                part = part_of(lab, "mine")
            except LabkitError as error:
                left_out[lab.id] = f"since {str(error).splitlines()[0]}"
                continue
            if part and part.unwritten:
                left_out[lab.id] = "since they are no longer written"
            elif part:
                parts.append(part)
    return parts, left_out


def backend_for(parts: Sequence[Part]) -> str:
    """The attention back end that the parts are a part of, plain torch before kernels; "auto" if any will do."""
    modules = {slot.module.rpartition(".")[2] for part in parts for slot in part.lab.slots}
    if "reference" in modules:
        return "reference"
    return "triton-simple" if modules & {"write_kv", "triton_simple"} else "auto"


class Bookkeeper(StepListener):
    """Counts admissions where a schedule() does not: the outline of 03.2 leaves it to 03.13."""

    def __init__(self, scheduler: SchedulerInterface) -> None:
        self.scheduler = scheduler
        self.waiting: dict[str, RequestStatus] = {}
        self.num_counted = 0

    def before_schedule(self) -> None:
        self.waiting = {request.request_id: request.status for request in self.scheduler.waiting}
        self.num_counted = self._count()

    def after_schedule(self, step: Step) -> None:
        admitted = [request for request in step.output.scheduled_requests if request.request_id in self.waiting]
        if self._count() == self.num_counted:
            for request in admitted:
                self._record(request)

    def _count(self) -> int:
        return self.scheduler.prefix_cache_stats.requests + self.scheduler.preempted_prefix_cache_stats.requests

    def _record(self, request: Request) -> None:
        kv, stats = self.scheduler.kv_cache_manager, self.scheduler.preempted_prefix_cache_stats
        num_hits = request.num_computed_tokens - kv.num_external_tokens(request)
        if self.waiting[request.request_id] is RequestStatus.WAITING:
            stats, request.num_cached_tokens = self.scheduler.prefix_cache_stats, num_hits
        if kv.enable_prefix_caching:
            stats.record(request.num_tokens, num_hits)


def answer(prompt: str | None, **options: Any) -> None:
    """The answers, and what the scheduler did."""
    out = Console(highlight=False, soft_wrap=True)
    trace = run_model(out, prompt, **options)
    out.print(render_timeline(trace, width=min(out.width, 100)))
    out.print(render_requests(trace))


def run_model(out: Console, prompt: str | None, **options: Any) -> dict[str, Any]:
    """Answer with the bundled model; the trace of it."""
    from mini_vllm import LLM, SamplingParams
    from mini_vllm.cli.demo import Demo

    llm = LLM("tiny", device="cpu", dtype="float32", **SIZES, **options)
    llm.engine.listeners.append(Bookkeeper(llm.engine.scheduler))
    if "structured_outputs_backend" in options:
        recorder = watch(llm)
        call_a_tool(out, llm, "What is a KV block?" if prompt is None else prompt)
        return recorder.to_trace("lab run")
    if prompt is None:
        demo = Demo(llm)
        demo.recorder = watch(llm)
        for _ in demo.steps():
            pass
        for request_id, text in demo.answers.items():
            question = demo.conversations[request_id][-1]["content"]
            out.print(f"{request_id}: {question}\n  {text.strip()}\n", markup=False)
        return demo.recorder.to_trace("lab run")
    recorder = watch(llm)
    for output in llm.chat([{"role": "user", "content": prompt}], SamplingParams(temperature=0.0, max_tokens=60)):
        out.print(output.outputs[0].text.strip() + "\n", markup=False)
    return recorder.to_trace("lab run")


def call_a_tool(out: Console, llm: Any, question: str) -> None:
    """A text that masks force to be one of a few, and then a call with it, which is found as its pieces come."""
    from mini_vllm import SamplingParams
    from mini_vllm.frontend.assistant_parser import AssistantForm, AssistantParser
    from mini_vllm.params import StructuredOutputs

    prompt = llm.apply_chat_template([{"role": "user", "content": question}])

    def pieces(*texts: str) -> list[str]:
        params = SamplingParams(temperature=0.0, max_tokens=200, structured=StructuredOutputs(choice=texts))
        return [delta.outputs[0].text for delta in llm.stream(prompt, params)]

    def call(name: str) -> str:
        return f"Wait.\n<tool_call>{json.dumps({'name': name, 'arguments': {'term': term}})}</tool_call>"

    term = "".join(pieces(*TERMS))
    out.print(f"{question}\n  one of {', '.join(TERMS)}:\n  {term}\n", markup=False)
    out.print("A tool is called, define or explain. What the pieces of the text bring:", markup=False)
    parser, held = AssistantParser(AssistantForm("hermes")), ""
    for piece in [*pieces(call("define"), call("explain")), None]:
        delta = parser.finish() if piece is None else parser.feed(piece)
        held += piece or ""
        for brought in (delta.content, *(called["function"] for called in delta.tool_calls)):
            if brought:
                out.print(f"  {held!r} brings\n    {brought!r}", markup=False)
                held = ""
    out.print()


def watch(llm: Any) -> TraceRecorder:
    """A recorder of the engine's steps that keeps statistics, too, by the learner's part of 03.9 if it is in."""
    recorder = TraceRecorder(llm.engine.scheduler, stats=True)
    llm.engine.listeners.append(recorder)
    return recorder
