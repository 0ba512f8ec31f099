"""Matrix products in one shape: so many rows at a time, whatever the batch has.

A library chooses the order of a sum by the shape of the product. In one shape the order is one, and
a row has the same bits at every place in it. That is less than BatchInvariant asks of the library,
which has to give a row the same bits for many numbers of rows, so more machines have it.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mini_vllm.errors import InvalidParameterError
from mini_vllm.worker.batch_invariant import PRODUCTS, Product

ROWS = (16, 32, 64)  # of a product, that are tried


class FixedShape(TorchFunctionMode):
    """While it is entered, a product with a weight is computed in pieces of one number of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[tuple[Any, ...], int] = {}
        """By product, shape and dtype of the weight: the rows of a piece, the last of which has
        rows of zeros.
        """

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

        def run(rows: Tensor) -> Tensor:
            product: Tensor = func(rows, weight, *rest, **(kwargs or {}))
            return product

        if key not in self.rows:
            self.rows[key] = rows_of(run, x)
        num_rows = self.rows[key]
        padded = F.pad(x, (0, 0, 0, -len(x) % num_rows))
        return torch.cat([run(piece) for piece in torch.split(padded, num_rows)])[: len(x)]


def rows_of(run: Product, like: Tensor) -> int:
    """The least of ROWS in which a row has the same bits at every place.

    like [T, K]: has the size, the dtype and the device of the rows. Raises InvalidParameterError if
    there is none.
    """
    size_in, device = like.shape[1], like.device
    for num_rows in ROWS:
        numbers = torch.arange(num_rows * size_in, device=device).sin().view(num_rows, size_in)
        rows = numbers.to(like.dtype)
        wanted = run(rows)
        if all(torch.equal(run(rows.roll(i, 0)).roll(-i, 0), wanted) for i in range(num_rows)):
            return num_rows
    raise InvalidParameterError(
        f"draft_model 'self': in a product of {size_in} numbers in {like.dtype} with "
        f"{torch.get_num_threads()} threads a row has other bits at other places, for {ROWS} rows; "
        "set dtype='float32' or another number of threads"
    )
