"""Whose turn it is, by clocks that the test moves."""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from mini_vllm.structured.sandbox.fair_threads import FairThreads, Job, Turns

Call = Callable[[], Any]


class Clock:
    """Seconds, which pass when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def job(owner: str, number: int = 0) -> Job:
    return Job(owner, lambda: number, Future())


def taken(turns: Turns) -> list[str]:
    """The owners of all jobs that may begin now."""
    found = []
    while (each := turns.take(wait=False)) is not None:
        found.append(each.owner)
    return found


def test_the_owner_that_has_used_least_is_next() -> None:
    turns = Turns(4, 60.0, Clock())
    for owner in ("a", "a", "a", "b", "c"):
        turns.put(job(owner))
    order = []
    for _ in range(5):
        owner = turns.take(wait=False).owner  # type: ignore[union-attr]
        order.append(owner)
        turns.done(owner, 5.0 if owner == "a" else 1.0)
    assert order == ["a", "b", "c", "a", "a"]


def test_an_owner_never_has_all_threads() -> None:
    turns = Turns(4, 60.0, Clock())
    for owner in ("a", "a", "a"):
        turns.put(job(owner))
    assert taken(turns) == ["a"]
    turns.put(job("b"))
    assert taken(turns) == ["b"]
    turns.done("a", 0.1)
    assert taken(turns) == ["a"]


def test_an_owner_has_so_many_seconds_in_a_minute() -> None:
    """However its jobs differ from each other."""
    clock = Clock()
    turns = Turns(4, 20.0, clock)
    num_begun = {"a": 0, "": 0}
    for owner in num_begun:
        for number in range(100):
            turns.put(job(owner, number))
    for second in range(0, 120, 5):
        clock.now = float(second)
        for owner in taken(turns):
            num_begun[owner] += 1
            turns.done(owner, 5.0)
    # 20 seconds at once, 40 in two minutes, and the job that began below the limit
    assert num_begun["a"] in (11, 12, 13)
    assert num_begun[""] == 24, "the server's owner has no such limit"


def test_another_owners_job_is_done_while_one_waits(
    threads: Callable[..., FairThreads],
) -> None:
    pool, may_end, begun = threads(4), threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert may_end.wait(60)
        return "slow"

    slow_ones = [pool.submit("a", slow) for _ in range(20)]
    assert begun.wait(60)
    assert [pool.submit("b", lambda: "b").result(60) for _ in range(3)] == ["b"] * 3
    assert not any(each.done() for each in slow_ones)
    assert pool.num_waiting("a") == 19
    may_end.set()
    assert [each.result(60) for each in slow_ones] == ["slow"] * 20
    assert pool.num_waiting("a") == 0


def test_a_job_may_raise_and_one_that_is_cancelled_is_not_begun(
    threads: Callable[..., FairThreads],
) -> None:
    pool, may_end, done = threads(1), threading.Event(), []

    def fail() -> None:
        assert may_end.wait(60)
        raise ValueError("no")

    first = pool.submit("a", fail)
    second, third = (pool.submit("a", lambda i=i: done.append(i)) for i in (2, 3))
    assert second.cancel()
    may_end.set()
    assert isinstance(first.exception(60), ValueError)
    third.result(60)
    assert done == [3]


def test_what_jobs_take_is_what_the_clock_of_the_processor_says(
    threads: Callable[..., FairThreads],
) -> None:
    clock, cpu = Clock(), Clock()
    pool = threads(1, clock=clock, cpu_clock=cpu)

    def use() -> None:
        cpu.now += 25

    pool.submit("a", use).result(60)
    beyond = pool.submit("a", use)
    assert pool.submit("b", lambda: "b").result(60) == "b"
    assert not beyond.running()
    assert not beyond.done()
    clock.now = 60  # of which it is told by the next job
    assert pool.submit("b", lambda: "b").result(60) == "b"
    beyond.result(60)


def test_the_threads_end_with_their_owner() -> None:
    before = set(threading.enumerate())
    pool = FairThreads(2, 20.0)
    pool.submit("a", lambda: None).result(60)
    (thread,) = set(threading.enumerate()) - before
    del pool
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Callable[..., FairThreads]:
    def make(num_threads: int, **clocks: Clock) -> FairThreads:
        pool = FairThreads(num_threads, 20.0, **clocks)
        request.addfinalizer(pool.close)
        return pool

    return make
