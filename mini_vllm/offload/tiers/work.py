"""What the two halves of the tiers tell each other: names, numbers of blocks, and jobs.

Source: LookupResult in vllm/v1/kv_offload/base.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Literal, NamedTuple

from mini_vllm.step import CpuBlockId, SwapIn, SwapOut

Name = bytes  # sha256 of a block's content: its tokens, and all before them


class LookupResult(Enum):
    """What a tier says of a name."""

    MISS = auto()
    HIT = auto()
    HIT_PENDING = auto()  # on its way into main memory
    RETRY = auto()  # on the disk: it has to be read first


class Job(NamedTuple):
    """Work for an io thread: a block of main memory and the file of its content."""

    number: int  # no two jobs of a connector have the same
    kind: Literal["read", "write", "delete"]
    name: Name
    cpu_block: CpuBlockId = CpuBlockId(-1)
    evicted: tuple[Name, ...] = ()
    """Files that make room for one that is written."""


@dataclass(frozen=True, slots=True)
class TierPlan:
    """The work of one step, in this order: store, load, then the model runs.

    A job is named once, and once more behind a step that has failed. So no job is lost, and none is
    begun twice: an io thread begins what it has not begun. Results name a job that has ended until
    a plan says that this is known, and then it is forgotten.
    """

    owner: str
    """Which connector asks. Jobs of another one end before the step begins."""
    store: tuple[SwapOut, ...] = ()  # (block, CPU block)
    load: tuple[SwapIn, ...] = ()  # (CPU block, block)
    jobs: tuple[Job, ...] = ()
    known: tuple[int, ...] = ()
    """The numbers of jobs whose end the scheduler knows."""


@dataclass(frozen=True, slots=True)
class TierResult:
    """done: jobs that have ended, by number, and whether they went well.

    What was measured in the step, each as a number and seconds: blocks that were read, with as many
    reads at once as there are, and tokens that were computed.
    """

    done: Mapping[int, bool] = field(default_factory=dict)
    read: tuple[float, float] = (0.0, 0.0)
    compute: tuple[float, float] = (0.0, 0.0)
