import pytest

from mini_vllm.offload.remote.leases import Leases

A, B = b"a" * 32, b"b" * 32


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases(clock: Clock) -> Leases:
    return Leases(clock, duration=30, extension=20)


def collected(leases: Leases) -> list[str]:
    return [lease.request_id for lease in leases.collect()]


def test_a_lease_is_in_force_until_its_end_and_not_at_it(leases: Leases, clock: Clock) -> None:
    lease = leases.grant("r", [A, B])
    assert lease.names == (A, B)
    clock.now += 29.9
    assert leases.find("r") is lease
    assert leases.holds(lease)
    assert collected(leases) == []
    clock.now = 130.0
    assert leases.find("r") is None
    assert not leases.holds(lease)
    assert collected(leases) == ["r"]
    assert collected(leases) == []
    assert len(leases) == 0


def test_a_heartbeat_puts_the_end_off_and_never_brings_it_nearer(
    leases: Leases, clock: Clock
) -> None:
    leases.grant("r", [A])
    clock.now += 5
    assert leases.extend("r")  # 20 seconds from now are less than what is left
    clock.now += 24.9
    assert leases.extend("r")
    clock.now += 19.9
    assert leases.find("r") is not None
    clock.now += 0.1
    assert leases.find("r") is None


def test_a_lease_that_is_over_cannot_be_renewed_before_it_is_collected(
    leases: Leases, clock: Clock
) -> None:
    leases.grant("r", [A])
    clock.now += 30
    assert not leases.extend("r")
    assert leases.pin("r") is None
    assert not leases.release("r")
    assert not leases.extend("unknown")
    assert collected(leases) == ["r"]


def test_all_are_looked_at_behind_a_renewed_one(leases: Leases, clock: Clock) -> None:
    for name in "abc":
        leases.grant(name, [A])
    clock.now += 29
    leases.extend("a")
    clock.now += 1
    assert collected(leases) == ["b", "c"]
    assert leases.find("a") is not None


def test_a_pinned_lease_outlives_its_end_for_its_reader_alone(leases: Leases, clock: Clock) -> None:
    lease = leases.grant("r", [A])
    assert leases.pin("r") is lease
    assert leases.pin("r") is lease
    clock.now += 31
    assert leases.pin("r") is None
    leases.unpin(lease)
    assert collected(leases) == []
    assert leases.holds(lease)
    leases.unpin(lease)
    assert not leases.holds(lease)
    assert collected(leases) == ["r"]
    with pytest.raises(AssertionError, match="unpinned"):
        leases.unpin(lease)


def test_a_released_lease_is_over_at_once_but_not_under_another_reader(leases: Leases) -> None:
    lease = leases.grant("r", [A])
    leases.pin("r")
    assert leases.release("r")
    assert not leases.release("r")
    assert collected(leases) == []
    leases.unpin(lease)
    assert collected(leases) == ["r"]


def test_every_lease_has_a_generation_of_its_own(leases: Leases, clock: Clock) -> None:
    first = leases.grant("r", [A])
    assert leases.pin("r") is first
    second = leases.grant("r", [B])  # of the same request
    assert second.generation > first.generation
    assert leases.find("r") is second
    assert leases.holds(first)  # its reader is still there
    assert collected(leases) == []
    leases.unpin(first)
    assert not leases.holds(first)
    assert leases.collect() == [first]
    clock.now += 30
    assert leases.collect() == [second]
    third = leases.grant("r", [A])
    assert third.generation > second.generation
    assert Leases(clock, first_generation=7).grant("r", [A]).generation == 7


def test_an_engine_that_begins_again_has_no_lease_and_no_pin_helps(leases: Leases) -> None:
    lease = leases.grant("r", [A])
    leases.pin("r")
    assert leases.clear() == [lease]
    assert not leases.holds(lease)
    assert leases.find("r") is None
    leases.unpin(lease)
    assert collected(leases) == []
