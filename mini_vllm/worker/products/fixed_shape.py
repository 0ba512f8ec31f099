"""Matrix products in one shape: so many rows at a time, whatever the batch has.

In one shape a library adds up in one order. That is less than BatchInvariant asks of it, which
needs one order for many numbers of rows, so more machines have it.
"""

from mini_vllm.worker.products.batch_invariant import BatchInvariant, Piece


class FixedShape(BatchInvariant):
    """While it is entered, a product with a weight is computed in pieces of one number of rows."""

    option = "draft_model 'self'"
    pieces = (Piece(16, 16), Piece(32, 32), Piece(64, 64))
