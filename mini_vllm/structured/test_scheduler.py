"""Requests that wait for a grammar: the decisions of vLLM 0.33.0, and what each rule is good
for.
"""

import itertools
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from labkit.compare.replay import (
    RecordedGrammar,
    differences,
    find_trace_files,
    read_traces,
    replay,
)
from mini_vllm.errors import DuplicateRequestError, GrammarError, InvalidParameterError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.params import SamplingParams, StructuredOutputs
from mini_vllm.policies.registry import SCHEDULERS, describe, get_scheduler_cls, make_scheduler
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler, SchedulerOutput
from mini_vllm.scheduler_interface import Step
from mini_vllm.structured.scheduler import GrammarGate, NewGrammar

TRACES = Path(__file__).parents[2] / "traces" / "vllm-0.33.0-structured"
FILES = find_trace_files(TRACES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_decision_is_vllms(file: Path) -> None:
    assert differences(file) == []


def head_if_it_is_ready(scheduler: Scheduler) -> Request | None:
    request = scheduler._next_waiting()
    return request if request and all(part.may_admit(request) for part in scheduler.parts) else None


def put_back_at_the_end(scheduler: Scheduler, output: SchedulerOutput) -> None:
    scheduler.waiting.extend(scheduler._set_aside)
    scheduler._set_aside.clear()


ROWS = GrammarGate._rows


def rows_of_one_that_forgets(gate: GrammarGate, request: Request, *args: Any) -> list[Any]:
    grammar: Any = gate._grammars[request.request_id]
    grammar._state *= not request.num_preemptions
    return ROWS(gate, request, *args)


GATE = "mini_vllm.structured.scheduler.GrammarGate"
RULES: dict[str, tuple[str, Any]] = {  # what is replaced, and by what
    "it holds up the queue": (
        "mini_vllm.scheduler.Scheduler._next_admissible",
        head_if_it_is_ready,
    ),
    "it loses its place": ("mini_vllm.scheduler.Scheduler._put_back", put_back_at_the_end),
    "it is admitted without a grammar": (f"{GATE}.may_admit", lambda self, request: True),
    "a chunk has a mask": (
        "mini_vllm.structured.scheduler.sampling",
        lambda output, scheduler: ((request, request) for request in output.scheduled_requests),
    ),
    "a preempted request begins its grammar again": (f"{GATE}._rows", rows_of_one_that_forgets),
    "what is rejected is delivered": (f"{GATE}.before_update", lambda self, step, sampled: None),
}


def broken_by(rule: str) -> list[str]:
    """The traces that notice when one rule is broken."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*RULES[rule])
        return [
            trace["name"] for trace in itertools.chain(*map(read_traces, FILES)) if replay(trace)
        ]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.slow
def test_a_broken_rule_is_noticed(rule: str) -> None:
    assert broken_by(rule)


# --- without a trace ------------------------------------------------------------------------------


class Grammars:
    """Futures that a test fulfils, by the text of the grammar."""

    idle_seconds = 0.0

    def __init__(self) -> None:
        self.futures: dict[str, Future[NewGrammar]] = {}

    def compile(self, wanted: StructuredOutputs, client: str = "") -> "Future[NewGrammar]":
        if wanted.key[1] == "refused":
            raise InvalidParameterError("refused")
        return self.futures.setdefault(wanted.key[1], Future())

    def is_ready(self, text: str, length: int = 99) -> None:
        self.futures[text].set_result(partial(RecordedGrammar, 1, 3, length))


def options_of(name: str) -> dict[str, Any]:
    sizes = {
        "num_blocks": 40,
        "block_size": 4,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 64,
        "scheduler": name,
    }
    return sizes | ({"num_cpu_blocks": 9} if name == "sequence_group" else {})


def make(name: str = "v1") -> tuple[Any, Grammars]:
    scheduler, grammars = make_scheduler(options_of(name)), Grammars()
    scheduler.attach(GrammarGate(grammars))
    return scheduler, grammars


def add(scheduler: Any, name: str, grammar: str | None = None, **options: Any) -> Request:
    structured = None if grammar is None else StructuredOutputs(grammar=grammar)
    params = SamplingParams(
        **{"max_tokens": 5, "ignore_eos": True, "structured": structured, **options}
    )
    request = Request(name, [7, 8, 9, 10, 11], params, eos_token_ids=[0])
    scheduler.add_request(request)
    return request


def step(scheduler: Any) -> tuple[Step, list[Request]]:
    """One step, in which each request samples the token 4."""
    decided = Step.decide(scheduler)
    return decided, decided.update(
        scheduler, {name: [4] for name in decided.output.num_scheduled_tokens}
    )


@pytest.mark.parametrize("name", ["v1", "prefill_first", "nano_vllm"])
def test_it_is_passed_over_and_keeps_its_place(name: str) -> None:
    scheduler, grammars = make(name)
    for request_id, grammar in (("a", "g"), ("b", None), ("c", "h"), ("d", None)):
        add(scheduler, request_id, grammar)
    decided, _ = step(scheduler)
    assert list(decided.output.num_scheduled_tokens) == ["b", "d"]
    assert decided.output.blocked == {"a": "grammar", "c": "grammar"}
    assert [request.request_id for request in scheduler.waiting] == ["a", "c"]
    grammars.is_ready("h")
    decided, _ = step(scheduler)
    assert "c" in decided.output.num_scheduled_tokens
    assert list(decided.output.masks) == ["c"]
    grammars.is_ready("g")
    decided, _ = step(scheduler)
    assert "a" in decided.output.num_scheduled_tokens
    assert not decided.output.blocked


@pytest.mark.parametrize("name", ["warm_first", "sequence_group"])
def test_a_scheduler_that_does_not_ask_waits_in_the_step(name: str) -> None:
    scheduler, grammars = make(name)
    grammars.futures["g"] = Future()
    grammars.is_ready("g")
    grammars.futures["wrong"] = Future()
    grammars.futures["wrong"].set_exception(GrammarError("no such rule"))
    add(scheduler, "a", "g")
    bad = add(scheduler, "b", "wrong")
    decided, finished = step(scheduler)
    assert list(decided.output.masks) == ["a"]
    assert finished == [bad]
    assert str(decided.errors[bad]) == "request 'b': no such rule"
    assert (bad.finish_reason, scheduler.running[0].request_id) == ("error", "a")


def test_a_request_that_is_refused_or_in_flight_changes_nothing() -> None:
    scheduler, grammars = make()
    add(scheduler, "a", "g")
    with pytest.raises(DuplicateRequestError):
        add(scheduler, "a", "h")
    with pytest.raises(InvalidParameterError):
        add(scheduler, "b", "refused")
    assert list(grammars.futures) == ["g"]
    assert [request.request_id for request in scheduler.requests] == ["a"]


def test_nothing_is_kept_of_requests_that_have_ended() -> None:
    scheduler, grammars = make_scheduler(options_of("v1")), Grammars()
    gate = GrammarGate(grammars)
    scheduler.attach(gate)
    for name, grammar in (("a", "g"), ("b", "h"), ("c", "g"), ("d", "wrong")):
        add(scheduler, name, grammar)
    grammars.is_ready("g", length=2)
    grammars.futures["wrong"].set_exception(GrammarError("no such rule"))
    step(scheduler)
    scheduler.abort_request("b")
    scheduler.abort_request("c")
    for _ in range(4):
        step(scheduler)
    assert not scheduler.has_unfinished_requests()
    assert not gate._compiling
    assert not gate._grammars


def test_a_text_that_goes_on_behind_its_end_ends_with_an_error_and_alone() -> None:
    scheduler, grammars = make()
    bad, good = add(scheduler, "a", "g"), add(scheduler, "b")
    grammars.is_ready("g", length=2)
    decided, _ = step(scheduler)
    decided, _ = step(scheduler)
    decided, finished = step(scheduler)
    assert decided.output.masks == {"a": [None]}
    assert finished == [bad]
    assert (bad.finish_reason, len(bad.output_token_ids), good.is_finished) == ("error", 3, False)
    assert "its grammar does not allow token 4" in str(decided.errors[bad])


def test_a_mask_behind_each_draft_and_the_grammar_is_where_it_was() -> None:
    class Drafting(Scheduler):
        drafts: Any = None

        def schedule(self) -> SchedulerOutput:
            output = super().schedule()
            output.drafts = self.drafts or {}
            return output

        def _target(self, request: Request) -> int:
            return request.num_tokens + len((self.drafts or {}).get(request.request_id, ()))

    grammars = Grammars()
    scheduler: Any = Drafting(KVCacheManager(40, 4), max_num_seqs=4, max_num_batched_tokens=64)
    scheduler.attach(GrammarGate(grammars))
    add(scheduler, "a", "g", max_tokens=20)
    grammars.is_ready("g", length=6)
    step(scheduler)
    for drafts, rows in (
        ([4, 4, 4], [1, 2, 3, 4]),
        ([4, 5, 4], [1, 2, 2, 2]),  # 5 + 3 * 2 + 1 is a multiple of 3
        ([4, -1, 4], [1, 2, None, None]),
        ([4, 4, 4, 4, 4, 4], [1, 2, 3, 4, 5, None, None]),
    ):
        scheduler.drafts = {"a": drafts}
        output = Step.decide(scheduler).output
        assert output.masks == {"a": rows}
        scheduler.fail_step(output)
        scheduler.drafts = {}
        output = Step.decide(scheduler).output
        assert output.masks == {"a": [1]}
        scheduler.fail_step(output)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_with_grammars_is_of_its_own_class(name: str) -> None:
    scheduler, _ = make(name)
    assert type(scheduler) is get_scheduler_cls(name)
    assert describe(scheduler) == describe(make_scheduler(options_of(name)))


def test_drafts_behind_one_that_the_grammar_does_not_allow_are_dropped() -> None:
    scheduler, grammars = make_scheduler(options_of("v1")), Grammars()
    gate = GrammarGate(grammars)
    scheduler.attach(gate)
    add(scheduler, "a", "g", max_tokens=20)
    grammars.is_ready("g", length=6)
    step(scheduler)
    drafts = {"a": [4, 5, 4], "b": [9]}  # 5 + 3 * 2 + 1 is a multiple of 3
    assert gate.allowed_drafts(drafts) == {"a": [4], "b": [9]}
    assert step(scheduler)[0].output.masks == {"a": [1]}
