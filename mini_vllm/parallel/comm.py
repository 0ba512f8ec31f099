"""A communicator between processes: gloo on CPUs, NCCL on GPUs, by the same code.

Source: vllm/distributed/parallel_state.py (GroupCoordinator).
"""

import os
import sys
from concurrent.futures import Future
from threading import Thread

import torch
import torch.distributed as dist
from torch import Tensor

from mini_vllm.parallel.shard import Communicator


class GroupCommunicator(Communicator):
    """Rank `rank` of `size` processes, which meet by a file. They find each other in a thread, so a
    model can be loaded meanwhile.
    """

    def __init__(self, rank: int, size: int, file: str, device: torch.device) -> None:
        self.size, self.device = size, device
        self._met: Future[None] = Future()
        Thread(target=self._meet, args=(rank, file, device), daemon=True).start()

    def _meet(self, rank: int, file: str, device: torch.device) -> None:
        # gloo listens where the name of the host points to, which the network may reach
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
        try:
            dist.init_process_group(
                "nccl" if device.type == "cuda" else "gloo",
                store=dist.FileStore(file, self.size),  # type: ignore[attr-defined]
                rank=rank,
                world_size=self.size,
                device_id=device if device.type == "cuda" else None,
            )
            self._met.set_result(None)
        except Exception as error:
            self._met.set_exception(error)

    def meet(self) -> None:
        """Wait until all ranks have met. Raises what kept them apart."""
        self._met.result()
        self.all_reduce(torch.zeros(1, device=self.device))

    def all_reduce(self, x: Tensor) -> Tensor:
        dist.all_reduce(x)
        return x

    def all_gather(self, x: Tensor) -> Tensor:
        gathered = x.new_empty(self.size, *x.shape)
        dist.all_gather([*gathered], x.contiguous())
        return gathered

    def all_to_all(self, x: Tensor) -> Tensor:
        received = torch.empty_like(x)
        dist.all_to_all_single(received, x.contiguous())
        return received
