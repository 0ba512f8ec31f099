"""The same bits for a request, whatever else is in its batch.

A row of a matrix product is a sum, and a library chooses the order of its terms by the number of
rows: one row is a product with a vector, and a few are cut for the threads in another way than
many. So the number of rows that another request brings changes the last bits of this one, and at
times a token. What is rows of their own (norms, rotation, sampling) has no such choice, and
attention is told to cut every query alike (attention/tiles.py).

Here a product gets rows of zeros until their number is one from which on a row is always the same.
Which numbers these are is measured: for each shape of a weight, when it is used first.

Source: He et al., "Defeating Nondeterminism in LLM Inference" (2025);
enable_batch_invariant_mode in vllm/model_executor/determinism/batch_invariant.py, which replaces
the operators of a GPU.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mini_vllm.errors import InvalidParameterError

MULTIPLES = (1, 2, 4, 8, 16, 32, 64)  # of rows, that are tried
NUMBERS = (*range(1, 33), 48, 64, 100, 200)  # of rows, in a trial
Product = Callable[[Tensor], Tensor]
PRODUCTS = {F.linear, getattr(torch.ops.mkldnn, "_linear_pointwise", None)}


class BatchInvariant(TorchFunctionMode):
    """While it is entered, each row of a product with a weight has the same bits in every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.multiples: dict[tuple[Any, ...], int] = {}
        """By product, shape and dtype of the weight: of what the rows have to be a multiple."""

    def measure(self, run: Product, like: Tensor) -> int:
        """The least of MULTIPLES that gives a row the same bits at every place among any number of
        rows that is a multiple of it.

        like [T, K]: has the size, the dtype and the device of the rows. Raises
        InvalidParameterError if there is none.
        """
        rows = trial_rows(NUMBERS[-1] + MULTIPLES[-1], like)
        for multiple in MULTIPLES:
            wanted = run(rows[:multiple])[0]
            among = [rows[: number + -number % multiple] for number in NUMBERS]
            if all(
                torch.equal(run(some)[0], wanted) and torch.equal(run(some.roll(-1, 0))[-1], wanted)
                for some in among
            ):
                return multiple
        raise InvalidParameterError(
            f"batch_invariant: a product of {like.shape[1]} numbers in {like.dtype} with "
            f"{torch.get_num_threads()} threads has other bits in every number of rows up to "
            f"{NUMBERS[-1]}; set dtype='float32' or another number of threads"
        )

    def compute(self, run: Product, rows: Tensor, multiple: int) -> Tensor:
        """The product of rows [n * multiple, K]."""
        return run(rows)

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
        run: Product = lambda rows: func(rows, weight, *rest, **(kwargs or {}))  # noqa: E731
        if key not in self.multiples:
            self.multiples[key] = self.measure(run, x)
        multiple = self.multiples[key]
        num_more = -len(x) % multiple
        padded = F.pad(x, (0, 0, 0, num_more)) if num_more else x
        return self.compute(run, padded, multiple)[: len(x)]


def trial_rows(num_rows: int, like: Tensor) -> Tensor:
    """Different rows [num_rows, K] of the size, the dtype and the device of like [T, K]."""
    size_in = like.shape[1]
    numbers = torch.arange(num_rows * size_in, device=like.device).sin()
    return numbers.view(num_rows, size_in).to(like.dtype)
