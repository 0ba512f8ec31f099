"""A step that is recorded once and replayed: what a CUDA graph is, as a list of calls over buffers.

A buffer is a list, and its address is which list it is. A graph holds the lists that its kernels were given when it was
recorded, so a step has to be written into these lists. The reference of lab 07.2. Source: CUDAGraphWrapper in
vllm/compilation/cuda_graph.py, which compares addresses in debug mode only.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

Buffers = dict[str, list[int]]
Kernel = Callable[..., None]
Launch = Callable[..., None]


class Row(NamedTuple):
    """One token of a step: its id, its position, and the slot of the KV cache that it writes."""

    input_id: int
    position: int
    slot: int


class MovedBufferError(RuntimeError):
    """A kernel of the graph would read or write a list that is no longer the buffer of that name."""


class NotRecordedError(RuntimeError):
    """There is nothing to replay."""


class StepGraph:
    """A forward of `size` rows, for every step of at most so many.

    buffers: at least "input_ids", "positions" and "slot_mapping", each with at least `size` entries. Graphs of other
    sizes share them.
    """

    def __init__(self, size: int, buffers: Buffers) -> None:
        self.size = size
        self.buffers = buffers
        self._calls: list[tuple[Kernel, list[tuple[str, list[int]]]]] = []

    def record(self, forward: Callable[[Launch], None]) -> None:
        """Call forward(launch) once; what it launches is the graph from now on.

        launch(kernel, *names) notes the kernel and the buffers of these names, and runs nothing.
        """
        self._calls = []

        def launch(kernel: Kernel, *names: str) -> None:
            self._calls.append((kernel, [(name, self.buffers[name]) for name in names]))

        forward(launch)

    def can_use(self, num_rows: int) -> bool:
        """Whether a step of so many rows can be replayed."""
        return bool(self._calls) and 0 < num_rows <= self.size

    def pad(self, rows: Sequence[Row]) -> None:
        """Write a step into the first `size` entries of the buffers; behind its rows stand dummy rows.

        A dummy row has input id 0, position 0 and slot -1, which no kernel writes. Raises ValueError for more rows than
        `size`; then nothing changes.
        """
        if len(rows) > self.size:
            raise ValueError(f"{len(rows)} rows, and the graph has {self.size}")
        padded = [*rows, *[Row(0, 0, -1)] * (self.size - len(rows))]
        for name, values in zip(("input_ids", "positions", "slot_mapping"), zip(*padded, strict=True), strict=True):
            self.buffers[name][: self.size] = values

    def replay(self) -> None:
        """Run the kernels in their order, on the buffers that they were recorded with.

        Raises NotRecordedError, or MovedBufferError if one of these buffers is another list now; then nothing runs.
        """
        if not self._calls:
            raise NotRecordedError(f"no graph of {self.size} rows is recorded")
        for _, arguments in self._calls:
            for name, buffer in arguments:
                if self.buffers.get(name) is not buffer:
                    raise MovedBufferError(f"buffer {name!r} has moved since the graph was recorded")
        for kernel, arguments in self._calls:
            kernel(*(buffer for _, buffer in arguments))

    def destroy(self) -> None:
        """Forget what was recorded, so that nothing holds the buffers. The buffers stay."""
        self._calls = []
