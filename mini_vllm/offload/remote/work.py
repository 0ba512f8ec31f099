"""What the two halves of a connector to another engine tell each other, beside the jobs of
tiers.
"""

from typing import Literal, NamedTuple

from mini_vllm.offload.remote.options import Peer
from mini_vllm.offload.tiers.work import Name
from mini_vllm.step import CpuBlockId


class Pull(NamedTuple):
    """Fetch the blocks of a prompt, in their order, into these blocks of main memory."""

    number: int  # of the job, as in tiers
    peer: Peer
    request_id: str
    names: tuple[Name, ...]
    cpu_blocks: tuple[CpuBlockId, ...]


class Tell(NamedTuple):
    """Word to a prefiller: a heartbeat, or that the blocks are not needed any longer."""

    number: int
    peer: Peer
    what: Literal["extend", "release"]
    request_ids: tuple[str, ...]


class TransferStats(NamedTuple):
    """Since the engine began."""

    num_lent: int  # blocks that decoders could ask for
    num_expired: int  # leases that ran out, and nobody has said that the blocks are not needed
    num_pulled: int  # blocks that came from a prefiller
    num_missed: int  # blocks that did not come
    num_failed: int  # prompts of which some block did not come


class Pulled(NamedTuple):
    """What came of a Pull: so many blocks from the first one on, and why not the next one."""

    num_blocks: int
    why: str = ""
