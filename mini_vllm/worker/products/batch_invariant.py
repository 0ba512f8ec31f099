"""The same bits for a request, whatever else is in its batch.

A row of a matrix product is a sum, and a library chooses the order of its terms by the number of
rows: one row is a product with a vector, and a few are cut for the threads in another way than
many. So the number of rows that another request brings changes the last bits of this one, and at
times a token. What is rows of their own (norms, rotation, sampling) has no such choice, and
attention is told to cut every query alike (attention/tiles.py).

Here a product is cut into pieces, and the last one gets rows of zeros, so that each has a number of
rows in which a row is always the same. Which numbers these are is measured: for each shape of a
weight, when it is used first.

Source: He et al., "Defeating Nondeterminism in LLM Inference" (2025);
enable_batch_invariant_mode in vllm/model_executor/determinism/batch_invariant.py, which replaces
the operators of a GPU.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mini_vllm.errors import InvalidParameterError
from mini_vllm.worker.products.trial import Product, cancelling_sums

NUMBERS = (*range(1, 41), 48, 64, 65, 96, 100, 128, 192, 200, 256)  # of rows, in a trial
PRODUCTS = {F.linear, getattr(torch.ops.mkldnn, "_linear_pointwise", None)}


class Piece(NamedTuple):
    """Its number of rows: a multiple of the one, and at most the other."""

    multiple: int
    most: int


class BatchInvariant(TorchFunctionMode):
    """While it is entered, each row of a product with a weight has the same bits in every batch."""

    option: ClassVar[str] = "batch_invariant"
    pieces: ClassVar[Sequence[Piece]] = [
        Piece(multiple, most) for multiple in (1, 2, 4, 8, 16, 32, 64) for most in (256, 64, 32, 16)
    ]
    """Those that are tried, in this order: few rows of zeros matter more than large pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[tuple[Any, ...], Piece] = {}
        """By product, shape and dtype of the weight."""

    def measure(self, run: Product, like: Tensor) -> Piece:
        """The first of `pieces` in which a row has the same bits at every place, in any number of
        rows.

        like [T, K]: has the size, the dtype and the device of the rows. Raises
        InvalidParameterError if there is none.
        """
        sums = cancelling_sums(run, like)
        for piece in self.pieces:
            numbers = [n for n in NUMBERS if n % piece.multiple == 0 and n <= piece.most]
            if numbers and all(torch.equal(sums(n), sums(numbers[0])) for n in numbers):
                return piece
        raise InvalidParameterError(
            f"{self.option}: in a product of {like.shape[1]} numbers in {like.dtype} with "
            f"{torch.get_num_threads()} threads a row has other bits among other rows; "
            "set dtype='float32' or another number of threads"
        )

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func not in PRODUCTS:
            return func(*args, **(kwargs or {}))
        x, weight, *rest = args
        key = (func, weight.shape, x.dtype)
        if key not in self.found:
            plain = [None if isinstance(each, Tensor) else each for each in rest]  # no bias
            self.found[key] = self.measure(lambda rows: func(rows, weight, *plain), x)
        multiple, most = self.found[key]
        padded = F.pad(x, (0, 0, 0, -len(x) % multiple))
        parts = [func(part, weight, *rest, **(kwargs or {})) for part in torch.split(padded, most)]
        return torch.cat(parts)[: len(x)]
