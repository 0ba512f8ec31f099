"""What the process of a rank does: it takes calls in the order in which they are sent, and ends
when its parent does.
"""

from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from multiprocessing.shared_memory import SharedMemory
from typing import Any, NamedTuple

from mini_vllm.errors import shown
from mini_vllm.parallel.ring import Ring
from mini_vllm.parallel.watch.parent import end_with_parent, watch_parent

STEP = "execute_and_wait"  # the method that takes a step
IN_RING = b""  # instead of a call: the next step is in the ring


class Call(NamedTuple):
    """What a rank is asked for: a method of its object."""

    name: str
    arguments: tuple[Any, ...] = ()


class Answer(NamedTuple):
    """What a call has returned or raised. number: of the call, from 0."""

    number: int
    failed: bool
    value: Any


@dataclass(frozen=True, slots=True)
class Rank:
    """What a process has to know to be a rank. ring: the name of the shared memory. meeting: the
    file by which the ranks find each other.
    """

    rank: int
    size: int
    ring: str
    meeting: str


def start(rank: Rank, pipe: Connection, payload: bytes) -> None:
    """The process of a rank, from its first line on: main(rank, pipe, *arguments) of the payload.

    It watches its parent before it imports what main needs, which takes seconds.
    """
    watch_parent(0, rank.meeting)
    main, arguments = ForkingPickler.loads(payload)
    main(rank, pipe, *arguments)


def serve(rank: Rank, target: object, pipe: Connection) -> None:
    """Call the methods of `target` that the parent names; a step in the ring is one for its
    execute_and_wait().

    Rank 0 alone answers a step that has not failed.
    """
    memory = SharedMemory(rank.ring)
    ring, number = Ring(memory.buf, rank.size), 0
    with suppress(EOFError, OSError):  # the parent is gone
        while True:
            message = pipe.recv_bytes()
            is_step = message == IN_RING
            if is_step:
                found = ring.try_read(rank.rank)
                assert found is not None, "a step is in the ring before its bell rings"
                call = Call(STEP, ForkingPickler.loads(found))
            else:
                call = ForkingPickler.loads(message)
            try:
                answer = Answer(number, False, getattr(target, call.name)(*call.arguments))
            except Exception as error:
                answer = Answer(number, True, error)
            number += 1
            if rank.rank == 0 or answer.failed or call.name != STEP:
                pipe.send_bytes(_packed(answer))
    end_with_parent(0, rank.meeting)  # without destructors, which would wait for the other ranks


def _packed(answer: Answer) -> Any:
    """The answer for the pipe. An error that cannot travel is told in words."""
    try:
        message = ForkingPickler.dumps(answer)
        if answer.failed:
            ForkingPickler.loads(message)
    except Exception:
        error = RuntimeError(f"{type(answer.value).__name__}: {shown(str(answer.value))}")
        message = ForkingPickler.dumps(Answer(answer.number, True, error))
    return message
