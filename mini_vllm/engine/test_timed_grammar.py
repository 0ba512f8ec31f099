"""Masks that take long, by a clock of the processor that the test moves."""

from concurrent.futures import Future
from typing import Any

import pytest

from mini_vllm.engine.timed_grammar import TimedGrammarGate
from mini_vllm.errors import GrammarError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.params import SamplingParams, StructuredOutputs
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler
from mini_vllm.scheduler_interface import Step
from mini_vllm.structured.scheduler import Grammar, NewGrammar


class Seconds:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class AnyText:
    """A Grammar whose masks take so many seconds of the processor, or fail."""

    is_terminated = False

    def __init__(self, cpu: Seconds, text: str) -> None:
        self._cpu, self._text = cpu, text

    def mask(self) -> Any:
        if self._text == "fails":
            raise GrammarError("it fails")
        self._cpu.now += float(self._text)

    def accept(self, token_id: int) -> bool:
        return True

    def rollback(self, num_tokens: int) -> None:
        pass


class Trial:
    """A scheduler with such grammars. errors: by request that has ended with one."""

    idle_seconds = 0.0

    def __init__(self) -> None:
        self.clock, self.cpu = Seconds(), Seconds()
        self.errors: dict[str, str] = {}
        self.scheduler = Scheduler(KVCacheManager(99, 4), max_num_seqs=9, max_num_batched_tokens=99)
        self.scheduler.attach(TimedGrammarGate(self, self.clock, self.cpu))

    def compile(self, wanted: StructuredOutputs, client: str = "") -> "Future[NewGrammar]":
        future: Future[NewGrammar] = Future()
        future.set_result(lambda: AnyText(self.cpu, wanted.key[1]))
        return future

    def add(self, name: str, text: str | None, client: str, n: int = 1) -> None:
        structured = None if text is None else StructuredOutputs(regex=text)
        params = SamplingParams(max_tokens=50, ignore_eos=True, structured=structured)
        for i in range(n):
            self.scheduler.add_request(Request(f"{name}{i}", [1], params, client=client))

    def step(self) -> float:
        """One step. How many seconds its masks have taken."""
        before = self.cpu.now
        step = Step.decide(self.scheduler)
        step.update(self.scheduler, {name: [4] for name in step.output.num_scheduled_tokens})
        self.errors |= {each.request_id: str(error) for each, error in step.errors.items()}
        return self.cpu.now - before


def test_a_client_whose_masks_are_slow_holds_up_the_other_ones_for_a_bounded_time() -> None:
    trial = Trial()
    trial.add("slow", "0.5", "mallory", n=2)
    trial.add("quick", "0.001", "alice", n=2)
    trial.add("plain", None, "mallory")
    seconds = sum(trial.step() for _ in range(40))
    assert trial.errors == {
        f"slow{i}": f"request 'slow{i}': its grammar takes too long for a token" for i in range(2)
    }
    assert seconds - 40 * 2 * 0.001 == pytest.approx(1.5)
    trial.add("later", "0.5", "mallory")
    assert trial.step() == pytest.approx(0.502)
    assert "later0" in trial.errors, "its client has used what it has in a minute"
    trial.clock.now = 120
    trial.add("next", "0.5", "mallory")
    trial.step()
    assert "next0" not in trial.errors


def test_of_many_choices_with_a_slow_grammar_one_is_waited_for() -> None:
    trial = Trial()
    trial.add("slow", "2.0", "mallory", n=8)
    assert trial.step() == pytest.approx(2.0)
    assert len(trial.errors) == 8
    assert not trial.scheduler.has_unfinished_requests()


def test_quick_masks_are_never_too_many() -> None:
    trial = Trial()
    trial.add("a", "0.01", "alice", n=8)
    for _ in range(49):
        trial.step()
    assert not trial.errors
    assert trial.scheduler.has_unfinished_requests()


def test_a_grammar_that_fails_ends_its_request_alone() -> None:
    trial = Trial()
    trial.add("bad", "fails", "alice")
    trial.add("good", "0.001", "alice")
    trial.step()
    trial.step()
    assert trial.errors == {"bad0": "it fails"}
    assert [each.request_id for each in trial.scheduler.running] == ["good0"]


def test_a_timed_grammar_is_where_the_grammar_is() -> None:
    gate = TimedGrammarGate(Trial())
    inner: Any = AnyText(Seconds(), "0")
    grammar: Grammar = gate.begin(lambda: inner, Request("a", [1], SamplingParams()))
    assert not grammar.is_terminated
    inner.is_terminated = True
    assert grammar.is_terminated
