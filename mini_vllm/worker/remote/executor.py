"""RemoteExecutor: a TieringExecutor whose blocks of main memory are lent, or come from another
engine.
"""

import json
import logging
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from mini_vllm.models.checkpoint import resolve_model
from mini_vllm.offload.remote.connector import RemoteConnector
from mini_vllm.offload.remote.leases import EXTENSION_SECONDS, LEASE_SECONDS, Leases
from mini_vllm.offload.remote.options import KVTransferConfig
from mini_vllm.offload.remote.shelf import Shelf
from mini_vllm.offload.remote.work import Pull, Tell
from mini_vllm.step import CpuBlockId
from mini_vllm.worker.memory import KVCachePlan
from mini_vllm.worker.remote.client import Borrower
from mini_vllm.worker.remote.server import BlockServer
from mini_vllm.worker.remote.wire import PROTOCOL
from mini_vllm.worker.tiers.executor import TieringExecutor

NUM_PULLERS = 8  # threads
LAST_WORDS = 2.0  # seconds, when the engine ends
SAMPLE_BYTES = 4096  # at both ends of each tensor, at which its fingerprint looks

logger = logging.getLogger("mini_vllm")


class RemoteExecutor(TieringExecutor):
    """Owns the server that lends and the threads that pull."""

    clock: Callable[[], float] = staticmethod(time.monotonic)
    """Of leases and heartbeats, in seconds."""
    _server: BlockServer | None = None

    def allocate(self, plan: KVCachePlan) -> None:
        super().allocate(plan)
        self._transfer = KVTransferConfig(**self.config.kv_transfer_config)
        self._compatibility = self._compatibility_hash()
        self._borrower = Borrower(self._transfer, self._compatibility)
        self._pullers = ThreadPoolExecutor(NUM_PULLERS, "kv-pull")
        self._tellers = ThreadPoolExecutor(1, "kv-tell")

    def make_connector(self) -> RemoteConnector:
        """The scheduler's half. What an earlier one has lent is gone."""
        self._borrower.hang_up()
        config = self._transfer
        duration = config.kv_lease_duration
        leases = Leases(
            self.clock,
            duration,
            duration * EXTENSION_SECONDS / LEASE_SECONDS,
            secrets.randbits(48),
        )
        shelf = Shelf(leases)
        connector = RemoteConnector(super().make_connector(), config, shelf, self.clock)
        if self._server is not None:
            self._server.shelf.clear()
            self._server.shelf = shelf
        elif config.kv_role == "prefill":
            self._server = BlockServer(config, self._compatibility, shelf, self._block)
            logger.info("blocks are lent at %s, port %d", config.kv_ip, config.kv_port)
        return connector

    def _block(self, cpu_block: CpuBlockId) -> memoryview:
        return memoryview(self._bytes[cpu_block])

    def _submit(self, job: Any) -> "Future[Any]":
        if isinstance(job, Pull):
            return self._pullers.submit(
                self._borrower.pull, job, [self._block(each) for each in job.cpu_blocks]
            )
        if isinstance(job, Tell):
            return self._tellers.submit(self._borrower.tell, job)
        return super()._submit(job)

    def _compatibility_hash(self) -> str:
        """Of all that the K and V of a text depend on: what two engines must have alike. Where the
        model lies, and when its files were written, is not of it.
        """
        layout = self._layout(tuple(self._blocks.shape[1:]))
        weights = {
            path.name: fingerprint(path)
            for path in sorted(resolve_model(self.config.model).glob("*.safetensors"))
        }
        del layout["model"]
        described = {
            **layout,
            "weights": weights,
            "block_size": self._plan.block_size,
            "version": import_module(__name__.partition(".")[0]).__version__,
            "protocol": PROTOCOL,
        }
        return sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()

    def drain(self) -> None:
        """What is pulled is a miss from now on. Other engines are told for a moment what they may
        forget.
        """
        self._borrower.drain(LAST_WORDS)

    def shutdown(self) -> None:
        """Blocks are not lent any longer, and nobody is told anything."""
        if self._server is not None:
            self._server.close()
        self._borrower.close()
        for threads in (self._pullers, self._tellers):
            threads.shutdown(wait=False, cancel_futures=True)
        super().shutdown()


def fingerprint(path: Path) -> str:
    """Of a safetensors file, by its header and both ends of every tensor: to read all of it would
    take as long as to load it.
    """
    with open(path, "rb") as file:
        header = file.read(int.from_bytes(file.read(8), "little"))
        digest, start = sha256(header), file.tell()
        for name, tensor in json.loads(header).items():
            if name != "__metadata__":
                first, end = tensor["data_offsets"]
                for place in (first, max(first, end - SAMPLE_BYTES)):
                    file.seek(start + place)
                    digest.update(file.read(min(SAMPLE_BYTES, end - first)))
    return digest.hexdigest()
