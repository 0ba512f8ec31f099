"""The array module of NumpyExecutor: all that it does with numbers. A page of the book has the same
in JavaScript.

An array here is float32 [rows, columns] and opaque to the executor; of heads, all channels stand
side by side. What is called a list is a list of Python integers.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
# of a request: num_computed_tokens, tokens of this step, block table
Span = tuple[int, int, list[int]]


def load(raw: bytes, dtype: str, shape: tuple[int, ...]) -> Array:
    """A tensor of a safetensors file; dtype is F32, F16 or BF16."""
    if dtype == "BF16":  # the upper half of a float32
        return (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[dtype]).astype(np.float32).reshape(shape)


def zeros(num_rows: int, num_columns: int) -> Array:
    """Room for the KV cache."""
    return np.zeros((num_rows, num_columns), np.float32)


def take(x: Array, rows: list[int]) -> Array:
    """Rows of x: embeddings of tokens, or the hidden states that sample."""
    return x[rows]


def write(x: Array, rows: list[int], new: Array) -> None:
    """Set rows of x."""
    x[rows] = new


def add(x: Array, y: Array) -> Array:
    """The residual sum."""
    return x + y


def linear(x: Array, weight: Array) -> Array:
    """x W^T for weight [out, in]."""
    return x @ weight.T


def rms_norm(x: Array, weight: Array, eps: float) -> Any:
    """Every len(weight) channels to unit mean square, times weight."""
    heads = x.reshape(-1, len(weight))
    mean_square = np.square(heads).mean(1, keepdims=True)
    return (heads / np.sqrt(mean_square + np.float32(eps)) * weight).reshape(x.shape)


def silu_mul(gate: Array, up: Array) -> Any:
    """silu(gate) * up."""
    return gate / (1 + np.exp(-gate)) * up


def rotation(positions: list[int], head_dim: int, theta: float) -> tuple[Array, Array]:
    """Cosine and sine of the angle of each position and pair of channels, [rows, 1, head_dim
    / 2].
    """
    inv_freq = 1 / np.float32(theta) ** (
        np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    )
    angles = np.array(positions, np.float32)[:, None, None] * inv_freq
    return np.cos(angles), np.sin(angles)


def rotate(x: Array, angles: tuple[Array, Array]) -> Array:
    """Turn each head of x: of a head (a, b) becomes (a cos - b sin, b cos + a sin)."""
    cos, sin = angles
    heads = x.reshape(len(x), -1, 2 * cos.shape[2])
    a, b = np.split(heads, 2, axis=2)
    return np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=2).reshape(x.shape)


def attend(
    query: Array, keys: Array, values: Array, spans: list[Span], block_size: int, head_dim: int
) -> Array:
    """Causal attention of each request's rows over its blocks of the caches keys and values [slots,
    kv channels].
    """
    output, row = np.empty_like(query), 0
    for start, num_rows, block_ids in spans:
        end = start + num_rows
        pages = block_ids[: -(-end // block_size)]
        key, value = (  # [kv heads, keys, head_dim]
            cache.reshape(-1, block_size, cache.shape[1])[pages].reshape(
                -1, cache.shape[1] // head_dim, head_dim
            )[:end]
            for cache in (keys, values)
        )
        key, value = key.swapaxes(0, 1), value.swapaxes(0, 1)
        heads = (
            query[row : row + num_rows]
            .reshape(num_rows, len(key), -1, head_dim)
            .transpose(1, 2, 0, 3)
        )
        # [kv heads, group, rows, keys]
        scores = heads @ key.swapaxes(1, 2)[:, None] * np.float32(head_dim**-0.5)
        scores[..., np.arange(end) > np.arange(start, end)[:, None]] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        output[row : row + num_rows] = (
            (weights @ value[:, None]).transpose(2, 0, 1, 3).reshape(num_rows, -1)
        )
        row += num_rows
    return output


def tolist(x: Array) -> Any:
    """Rows as sequences of Python's floats."""
    return x.tolist()
