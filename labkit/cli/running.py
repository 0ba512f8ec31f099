"""`lab run`: the six questions of `mini-vllm demo` on a learner's parts, in a pool that is tight.

A phase runs on the scheduler of vLLM V1; what belongs to another one is left out, by name, unless its lab is named.
Phases 04 to 08 ask what shows masks, a stream, drafts, groups and tiers, a step ahead and ranks (labkit.cli.payoff,
.memory, .step_times and .on_ranks), and 01 also times the kernel in C.
Without torch the bundled model runs in NumPy, which has no groups, no tiers and no ranks.
"""

from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Any

from rich.console import Console

from labkit.cli import memory, on_ranks, payoff, step_times
from labkit.compare import behaviour
from labkit.grade.runner import prepare, why_not_graded
from labkit.grade.watchdog import LabHang, watchdog
from labkit.labs import progress
from labkit.labs.catalog import C_COMPILER, Lab, LabkitError, find_lab, labs, phases
from labkit.labs.graft import Part, grafted
from labkit.labs.implementations import part_of
from labkit.labs.together import Reasons, by_reason, why_it_stopped
from labkit.ranks.executor import TwoRanks
from labkit.testing.words import LabFailure
from mini_vllm.errors import shown
from mini_vllm.observe.files import check_text
from mini_vllm.observe.listener import StepListener
from mini_vllm.observe.timeline import render_requests, render_timeline, render_totals
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import SchedulerInterface
from mini_vllm.scheduler_interface import Step

SECONDS = 120.0  # for the answers
MOST_STEPS = 200  # in a row, in which no request gets a token
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
    "06": {"kv_offload_bytes": 1 << 22},
    "07": {"async_scheduling": True},
    "08": {"executor_cls": TwoRanks},
}


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
        print(f"The engine has {name}={value.__name__ if isinstance(value, type) else repr(value)}.")
    called: set[behaviour.Called] = set()
    try:
        with grafted(parts), behaviour.noting_calls(callable_in_python(parts), called), watchdog(SECONDS):
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
    if said := payoff.called(callable_in_python(parts), called):
        print(said)
    for lab in chosen:
        if C_COMPILER in lab.needs:
            show_kernel(lab)
    drafting = [lab_id for lab_id, engine in ENGINES.items() if "speculative" in engine]  # no scenario has drafts
    deciding = [part for part in parts if behaviour.decides(part) and part.lab.id not in drafting]
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
        if lab.is_break_it or C_COMPILER in lab.needs:  # no engine runs on what has a process of its own
            continue
        if ENGINES.get(lab.id, options) != options and not why_not_graded(lab):
            left_out[lab.id] = "for other engines (`lab run ID` takes that of a lab)"
            continue
        found = load_done(lab, data)
        if isinstance(found, Part):
            parts.append(found)
        elif found:
            left_out[lab.id] = found
    return parts, left_out


def load_done(lab: Lab, data: Mapping[str, Any]) -> Part | str | None:
    """The learner's part of a lab, or why it is left out; None where a lab has no part. data: as progress.read()."""
    if why_not_graded(lab):
        return "since this machine lacks what they need"
    if not progress.is_done(lab.id, dict(data)) or not lab.mine.exists():
        return "since they are not done"
    try:
        prepare(lab)
        part = part_of(lab, "mine")
    except LabkitError as error:
        return f"since {str(error).splitlines()[0]}"
    return "since they are no longer written" if part and part.unwritten else part


def show_kernel(lab: Lab) -> None:
    """The time of the learner's kernel in C, beside the reference's and the memory's."""
    out, part = Console(highlight=False, soft_wrap=True), load_done(lab, progress.read())
    if why_not_graded(lab):
        out.print(f"Nothing is timed: {why_not_graded(lab)}.")
        return
    if isinstance(part, str):
        out.print(f"{lab.id} is not yours yet, {part.replace('they are', 'it is')}.")
    try:
        payoff.kernel(out, part if isinstance(part, Part) else None)
    except LabFailure as failure:
        raise LabkitError(f"{lab.id} cannot be timed: {failure}. `lab test {lab.id}` grades it.") from failure


def callable_in_python(parts: Sequence[Part]) -> list[Part]:
    """Those whose calls can be counted: a Triton kernel is launched and not called."""
    return [part for part in parts if "triton" not in part.lab.needs]


def backend_for(parts: Sequence[Part]) -> str:
    """The attention back end that the parts are a part of, plain torch before kernels; "auto" if any will do."""
    modules = {slot.module.rpartition(".")[2] for part in parts for slot in part.lab.slots}
    if "reference" in modules:
        return "reference"
    return "triton-simple" if modules & {"write_kv", "triton_simple"} else "auto"


class NoProgressError(Exception):
    """An engine steps on, and no request gets a token."""


class Bookkeeper(StepListener):
    """Ends an engine that makes no progress, and counts admissions where a schedule() does not: the outline of 03.2
    leaves it to 03.13."""

    def __init__(self, scheduler: SchedulerInterface) -> None:
        self.scheduler = scheduler
        self.waiting: dict[str, RequestStatus] = {}
        self.num_counted = 0
        self.num_idle_steps = 0

    def before_schedule(self) -> None:
        self.num_idle_steps += 1
        if self.num_idle_steps > MOST_STEPS:
            live = (*self.scheduler.running, *self.scheduler.waiting)
            behind = [
                f"{each.request_id} has computed {each.num_computed_tokens} of {each.num_tokens}" for each in live
            ]
            raise NoProgressError(f"{MOST_STEPS} steps in a row brought no token: {', '.join(behind)}")
        self.waiting = {request.request_id: request.status for request in self.scheduler.waiting}
        self.num_counted = self._count()

    def after_schedule(self, step: Step) -> None:
        admitted = [request for request in step.output.scheduled_requests if request.request_id in self.waiting]
        if self._count() == self.num_counted:
            for request in admitted:
                self._record(request)

    def after_update(
        self, step: Step, sampled_token_ids: Mapping[str, Sequence[int]], finished: Iterable[Request], **_: bool
    ) -> None:
        if any(sampled_token_ids.values()):
            self.num_idle_steps = 0

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
    out.print(render_totals(trace))


def run_model(out: Console, prompt: str | None, **options: Any) -> Mapping[str, Any]:
    """Answer with the bundled model, and show what the phase of these options is about; the trace of it."""
    if "speculative" in options:
        return payoff.speculation(out, make_llm, prompt, options)
    if "kv_offload_bytes" in options:
        return memory.groups_and_tiers(out, make_llm, prompt, options)
    if "async_scheduling" in options:
        return step_times.one_step_ahead(out, make_llm, prompt, options)
    if "executor_cls" in options:
        return on_ranks.on_ranks(out, make_llm, prompt, options)
    llm = make_llm(**options)
    if "structured_outputs_backend" in options:
        return payoff.call_a_tool(out, llm, payoff.QUESTION if prompt is None else prompt)
    if prompt is None:
        return answer_the_demo(out, llm)
    from mini_vllm import SamplingParams

    recorder = payoff.watch(llm)
    for output in llm.chat([{"role": "user", "content": prompt}], SamplingParams(temperature=0.0, max_tokens=60)):
        out.print(output.outputs[0].text.strip() + "\n", markup=False)
    return recorder.to_trace("lab run")


def make_llm(**options: Any) -> Any:
    """The bundled model in a pool that is tight."""
    from mini_vllm import LLM

    llm = LLM(**{"model": "tiny", "device": "cpu", "dtype": "float32"} | SIZES | options)
    llm.engine.listeners.append(Bookkeeper(llm.engine.scheduler))
    return llm


def answer_the_demo(out: Console, llm: Any) -> Mapping[str, Any]:
    """The six questions of the demo, and their answers."""
    from mini_vllm.cli.demo import Demo

    demo = Demo(llm)
    demo.recorder = payoff.watch(llm)
    for _ in demo.steps():
        pass
    for request_id, text in demo.answers.items():
        question = demo.conversations[request_id][-1]["content"]
        out.print(f"{request_id}: {question}\n  {text.strip()}\n", markup=False)
    return demo.recorder.to_trace("lab run")
