"""The tensors of a checkpoint, as the layers take them.

Invariant: every tensor of a checkpoint is taken exactly once. Weights that are silently left out
give a model that runs and talks nonsense; `Checkpoint.finish` makes that an error. The layers take;
`models.load_model` finishes. Where a layer is cut among several processes, each takes its part of
every tensor (shard.py).
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from mini_vllm.errors import (
    CheckpointNotFoundError,
    CorruptCheckpointError,
    WeightsMismatchError,
    WeightsTooLargeError,
    shown,
)
from mini_vllm.models.checkpoint import INDEX_FILE, bare, weight_files
from mini_vllm.models.compressed_tensors import StoredWeights
from mini_vllm.parallel.shard import WHOLE, Shard

DTYPES = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
"""The dtypes of plain weights, by their names in a safetensors header."""
UNREADABLE = (SafetensorError, OSError, ValueError)  # what safetensors raises for a broken file
MAX_PROBLEMS = 100  # that a message lists, and after which nothing more is taken


class Checkpoint:
    """The tensors of a checkpoint, read lazily from its safetensors, each taken exactly once.

    headers_only: to find out whether all tensors match; only stand-ins are given out. Errors of the
    constructor: CheckpointNotFoundError, CorruptCheckpointError, UnsupportedCheckpointError.
    """

    def __init__(self, path: Path, *, headers_only: bool = False) -> None:
        self.path = path
        self.headers_only = headers_only
        self._source: dict[str, Any] = {}  # tensor name -> open file that holds it
        self._taken: set[str] = set()
        # missing names and wrong shapes; told all at once by finish()
        self._problems: list[str] = []
        for file, promised in weight_files(path).items():
            handle = _open(file, headers_only)
            names = dict.fromkeys(handle.keys(), handle)
            if twice := sorted(names.keys() & self._source.keys()):
                raise CorruptCheckpointError(
                    f"{file}: {bare(twice[0])} is also in another file of the checkpoint"
                )
            if absent := sorted(promised - names.keys()):
                raise CorruptCheckpointError(
                    f"{file}: has no {bare(absent[0])}, which {INDEX_FILE} promises"
                )
            self._source.update(names)

    @property
    def dtype(self) -> torch.dtype | None:
        """That of the first tensor which has a plain one: what transformers takes for a config.json
        that names none.
        """
        found = (
            DTYPES.get(handle.get_slice(name).get_dtype()) for name, handle in self._source.items()
        )
        return next(filter(None, found), None)

    def __contains__(self, name: str) -> bool:
        return name in self._source

    def take(
        self,
        name: str,
        shape: tuple[int, ...] | None = None,
        part: tuple[slice, ...] = (),
        dtypes: Collection[str] = tuple(DTYPES),
    ) -> Tensor:
        """The tensor of that name, on the CPU in the dtype of the file; a view of the mapped file,
        to copy from.

        part: the slices of its leading dimensions to read, all else is left on the disk; shape is
        that of the whole. The tensor counts as taken even so. A name that is missing, or has
        another shape or dtype, is noted for finish(), and a stand-in of the right shape that takes
        no memory is returned. Errors: WeightsMismatchError when the name was taken before, and when
        too many are wrong.
        """
        if name in self._taken:
            raise WeightsMismatchError(f"{self.path}: {name} is taken a second time")
        self._taken.add(name)
        problem = self._find_problem(name, shape, dtypes)
        if problem is None and not self.headers_only:
            return _read(self._source[name], name, part, self.path)
        if problem:
            self._problems.append(problem)
        if len(self._problems) == MAX_PROBLEMS:
            self._refuse(self._problems)
        return torch.zeros(()).expand(shape or ())[part]

    def _find_problem(
        self, name: str, shape: tuple[int, ...] | None, dtypes: Collection[str]
    ) -> str | None:
        """What the header says against the tensor, in words."""
        if name not in self._source:
            return f"missing {name}"
        header = self._source[name].get_slice(name)
        found, dtype = tuple(header.get_shape()), header.get_dtype()
        if shape is not None and found != shape:
            return f"{name} has shape {shown(found)}, expected {shape}"
        if dtype not in dtypes:
            return f"{name} has dtype {dtype}, supported are {', '.join(dtypes)}"
        return None

    def ignore(self, part: str) -> None:
        """Count the tensors whose name has this part as taken: what old checkpoints hold and no
        model needs, or what is of another model.
        """
        self._taken.update(name for name in self._source if part in name)

    def finish(self) -> None:
        """Close the files.

        Errors: WeightsMismatchError naming every tensor that is missing, misshapen or left over.
        """
        problems = self._problems + [
            f"left over {bare(name)}" for name in sorted(self._source.keys() - self._taken)
        ]
        self._source = {}
        if problems:
            self._refuse(problems)

    def _refuse(self, problems: list[str]) -> NoReturn:
        listed = problems[:MAX_PROBLEMS] + ["and perhaps more"] * (len(problems) >= MAX_PROBLEMS)
        raise WeightsMismatchError(
            f"{self.path}: {len(problems)} tensors do not match: " + "; ".join(listed)
        )


def _open(file: Path, headers_only: bool) -> Any:
    if not os.path.isfile(file):  # unlike Path.is_file, it answers for any name
        raise CheckpointNotFoundError(f"{file}: no such file")
    try:
        # for torch, the system has to promise memory for the whole file
        return safe_open(file, framework="np" if headers_only else "pt")
    except UNREADABLE as error:
        raise CorruptCheckpointError(
            f"{file}: not a complete safetensors file (a Git LFS pointer?): {shown(str(error))}"
        ) from error
    except RuntimeError as error:
        raise WeightsTooLargeError(
            f"{file} is too large to be mapped, save it in several: {shown(str(error))}"
        ) from error


def _read(handle: Any, name: str, part: tuple[slice, ...], path: Path) -> Tensor:
    try:
        tensor: Tensor = handle.get_slice(name)[part] if part else handle.get_tensor(name)
    except UNREADABLE as error:
        raise CorruptCheckpointError(
            f"{path}: {name} cannot be read: {shown(str(error))}"
        ) from error
    return tensor


@dataclass(frozen=True, slots=True)
class WeightLoader:
    """A checkpoint as one layer sees it: the prefix of its names, and the dtype and device its
    parameters live in.

    shard: which part of a layer that is cut this process holds. quantization: what linear layers
    make of a weight that is stored as it is; stored: how weights are stored that are not.
    """

    checkpoint: Checkpoint
    dtype: torch.dtype
    device: torch.device
    shard: Shard = WHOLE
    prefix: str = ""
    quantization: str | None = None
    stored: StoredWeights | None = None

    def at(self, name: str) -> "WeightLoader":
        """The loader of a part: `at("layers.0")` finds "weight" as "layers.0.weight"."""
        return replace(self, prefix=f"{self.prefix}{name}.")

    def load(
        self,
        parts: Mapping[str, tuple[int, ...]],
        cut: int | None = None,
        *,
        dtype: torch.dtype | None = None,
        dtypes: Collection[str] = tuple(DTYPES),
    ) -> nn.Parameter:
        """One parameter made of the named tensors, stacked along dimension 0 in the order given.

        dtype: of the parameter, if it is not the loader's. dtypes: what the tensors may have in the
        file. cut: the dimension in which each of them is cut, to load this shard's part of each;
        None for the whole. A part is copied straight from the file into its rows: at no time is
        there a second copy of the model. Errors: InvalidParameterError for a tensor that cannot be
        cut into equal parts.
        """
        own = self._own(parts, cut)
        rows = [len(ranges[0]) for ranges in own]
        stacked = torch.empty(
            sum(rows), *map(len, own[0][1:]), dtype=dtype or self.dtype, device=self.device
        )
        is_whole = cut is None or self.shard.size == 1
        for (name, shape), ranges, target in zip(
            parts.items(), own, torch.split(stacked, rows), strict=True
        ):
            part = () if is_whole else tuple(slice(each.start, each.stop) for each in ranges)
            source = self.checkpoint.take(self.prefix + name, shape, part, dtypes)
            target[: len(source)] = source
            target[len(source) :] = 0  # beyond the vocabulary
        return nn.Parameter(stacked, requires_grad=False)

    def _own(
        self, parts: Mapping[str, tuple[int, ...]], cut: int | None
    ) -> list[tuple[range, ...]]:
        """What this process holds of each of them."""
        return [
            self.shard.ranges(shape, cut, f"{self.prefix}{name}") for name, shape in parts.items()
        ]

    def load_stored(
        self, parts: Mapping[str, tuple[int, ...]], cut: int | None = None
    ) -> tuple[nn.Parameter, Tensor] | None:
        """Weights [N, K] that are stored quantised, and their scale [N, 1] float32; None if they
        are stored plainly.

        int8 stays so; float8, in which no CPU computes, is given in the loader's dtype.
        """
        scales = {f"{name}_scale": shape for name, shape in parts.items()}
        if self.stored is None or not any(self.prefix + name in self.checkpoint for name in scales):
            return None
        weight = self.load(
            parts,
            cut,
            dtype=torch.int8 if self.stored.dtype == "I8" else self.dtype,
            dtypes=[self.stored.dtype],
        )
        if self.stored.is_per_channel:
            shapes = {name: (shape[0], 1) for name, shape in scales.items()}
            return weight, self.load(shapes, 0 if cut == 0 else None, dtype=torch.float32)
        scale = self.load(dict.fromkeys(scales, (1,)), dtype=torch.float32)
        return weight, torch.cat(
            [
                each.expand(len(ranges[0]), 1)
                for each, ranges in zip(scale, self._own(parts, cut), strict=True)
            ]
        )
