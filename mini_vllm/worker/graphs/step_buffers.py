"""Where the inputs of a step live: named arrays in one piece of memory that stays.

The host writes into its half, of pinned memory beside a GPU, and one copy brings all of it to the
device. So a step has one upload however many arrays it needs, it allocates nothing, and what was
recorded over the device's half finds the next step's inputs at the same addresses. Block tables
stay on the device whole, and a step sends only the blocks that are new. Source:
CpuGpuBuffer in vllm/v1/utils.py; StagedWriteTensor in vllm/v1/worker/gpu/buffer_utils.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mini_vllm.attention.metadata import to_device
from mini_vllm.worker.graphs.batch import SyncedTables

ALIGNMENT = 16  # bytes: Triton compiles a kernel again for a pointer that is no multiple of it


class Field(NamedTuple):
    """An array of a step. padding fills the rows that the step does not."""

    dtype: torch.dtype
    shape: Sequence[int]
    padding: int | Sequence[int] = 0


class StepBuffers:
    """Named arrays of fixed shapes, on the host and on the device.

    host[name] is the memory to write to, device[name] that to which upload() brings it. At first
    all of them are padding.
    """

    def __init__(self, fields: Mapping[str, Field], device: torch.device) -> None:
        sizes = [int(np.prod(each.shape)) * each.dtype.itemsize for each in fields.values()]
        ends = np.cumsum([-(-size // ALIGNMENT) * ALIGNMENT for size in sizes]).tolist()
        self._host = torch.zeros(ends[-1], dtype=torch.uint8, pin_memory=device.type == "cuda")
        self._device = torch.zeros_like(self._host, device=device)
        self._uploaded = torch.cuda.Event() if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self.host: dict[str, Tensor] = {}
        self._padding: dict[str, Tensor] = {}
        self.device: dict[str, Tensor] = {}
        for (name, field), start, size in zip(fields.items(), [0, *ends], sizes, strict=False):
            self.host[name], self.device[name] = (
                memory[start : start + size].view(field.dtype).view(*field.shape)
                for memory in (self._host, self._device)
            )
            self._padding[name] = torch.tensor(field.padding, dtype=field.dtype)
            self.host[name][:] = self._padding[name]
        self.upload()

    def write(self, name: str, values: Any) -> None:
        """Put values [n] or [n, columns] into the first n rows; the rest become padding."""
        rows = self.host[name]
        rows[: len(values)] = torch.as_tensor(values)
        rows[len(values) :] = self._padding[name]

    def upload(self) -> None:
        """One copy, for which the host does not wait."""
        self._device.copy_(self._host, non_blocking=True)
        if self._uploaded is not None:
            self._uploaded.record()

    def wait(self) -> None:
        """Before the first write of a step: an earlier upload may still read the host's half."""
        if self._uploaded is not None:
            self._uploaded.synchronize()


class DeviceTables:
    """The block tables of one group of layers on the device: [rows + 1, columns] int32.

    Row i is that of row i of the InputBatch's; the last row is nobody's, and takes what pads.
    """

    def __init__(self, group: int, rows: int, columns: int, device: torch.device) -> None:
        self.group, self.num_rows = group, rows
        self.ids = torch.zeros(rows + 1, columns, dtype=torch.int32, device=device)

    def new_ids(self, tables: SyncedTables, rows: Sequence[int]) -> npt.NDArray[np.int64]:
        """What the device does not have of these rows: [n, 3], each a row, a column and an id."""
        new = tables.take_new(self.group, rows)
        # no sequence reaches beyond the columns, and a row too many is read by eager steps only
        return new[(new[:, 1] < self.ids.shape[1]) & (new[:, 0] < self.num_rows)]

    def put(self, new: Tensor) -> None:
        """Write ids [n, 3] that are on the device."""
        self.ids.index_put_((new[:, 0], new[:, 1]), new[:, 2].int())

    def send(self, new: npt.NDArray[np.int64]) -> None:
        """The same for ids of the host, by an upload of their own."""
        if len(new):
            self.put(to_device(new, self.ids.device))
