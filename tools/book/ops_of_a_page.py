"""mini_vllm/light/numpy_ops.py as a page has it: the functions of web/src/arrays.js, which worker.js registers."""

from typing import Any

import arrays  # type: ignore[import-not-found]
from arrays import add, attend, linear, load, rms_norm, rotate, rotation, silu_mul, take, write, zeros  # noqa: F401


def tolist(x: Any) -> Any:
    """Rows as lists of Python's floats."""
    return arrays.tolist(x).to_py()
