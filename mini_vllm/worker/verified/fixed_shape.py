"""Matrix products in one shape: so many rows at a time, whatever the batch has.

A library chooses the order of a sum by the shape of the product. In one shape the order is one, and
a row has the same bits at every place in it. That is less than BatchInvariant asks of the library,
which has to give a row the same bits for many numbers of rows, so more machines have it.
"""

import torch
from torch import Tensor

from mini_vllm.errors import InvalidParameterError
from mini_vllm.worker.batch_invariant import BatchInvariant, Product, trial_rows

ROWS = (16, 32, 64)  # of a product, that are tried


class FixedShape(BatchInvariant):
    """While it is entered, a product with a weight is computed in pieces of one number of rows, the
    last of which has rows of zeros.
    """

    def measure(self, run: Product, like: Tensor) -> int:
        """The least of ROWS in which a row has the same bits at every place.

        like [T, K]: has the size, the dtype and the device of the rows. Raises
        InvalidParameterError if there is none.
        """
        for num_rows in ROWS:
            rows = trial_rows(num_rows, like)
            wanted = run(rows)
            if all(torch.equal(run(rows.roll(i, 0)).roll(-i, 0), wanted) for i in range(num_rows)):
                return num_rows
        raise InvalidParameterError(
            f"draft_model 'self': in a product of {like.shape[1]} numbers in {like.dtype} with "
            f"{torch.get_num_threads()} threads a row has other bits at other places, for {ROWS} "
            "rows; set dtype='float32' or another number of threads"
        )

    def compute(self, run: Product, rows: Tensor, multiple: int) -> Tensor:
        """Piece by piece."""
        return torch.cat([run(piece) for piece in torch.split(rows, multiple)])
