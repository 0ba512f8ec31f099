"""The rows of a step that are sampled alike, and what they need. It is made when the batch changes,
and stays for the steps in which it does not.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mini_vllm.attention.metadata import to_device
from mini_vllm.step import SamplingRow
from mini_vllm.worker.sampling.logits import Edits, edits_of


@dataclass(frozen=True, slots=True)
class Part:
    """R rows of a step.

    indices: their places among the rows of the step, index the same on the device. places [R]:
    their rows in the table. edits: what they change of their logits, None: nothing.
    """

    rows: list[SamplingRow]
    indices: list[int]
    index: Tensor
    places: Tensor
    is_greedy: bool
    edits: Edits | None

    def of(self, values: Tensor) -> Tensor:
        """The part's rows of values [S, ...]."""
        return values if len(values) == len(self.rows) else values.index_select(0, self.index)

    def of_columns(self, values: Tensor) -> Tensor:
        """The same of values [n, S]."""
        return self.of(values.T).T


class LogprobRows(NamedTuple):
    """Rows whose log-probabilities are wanted, most of the k most likely tokens."""

    indices: list[int]
    places: Tensor
    most: int


class Kind(NamedTuple):
    """Rows of one kind are sampled together."""

    is_greedy: bool
    is_changed: bool
    has_top_p: bool


def parts_of(
    rows: Sequence[SamplingRow], places: Sequence[int], most_rows: int, device: torch.device
) -> list[Part]:
    """places: of each row in the table. Rows that are only a maximum are not cut."""
    kinds: defaultdict[Kind, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        has_top_p = not row.is_greedy and row.params.top_p < 1
        kinds[Kind(row.is_greedy, row.params.changes_logits, has_top_p)].append(i)
    return [
        _part(rows, places, indices, kind, device)
        for kind, all_indices in kinds.items()
        for indices in cut(all_indices, len(rows) if kind == (True, False, False) else most_rows)
    ]


def logprob_rows(
    rows: Sequence[SamplingRow], most_rows: int, device: torch.device
) -> list[LogprobRows]:
    """Those of a step."""
    wanted = {i: k for i, row in enumerate(rows) if (k := row.params.logprobs) is not None}
    return [
        LogprobRows(
            indices,
            to_device(np.array(indices, np.int64), device),
            max(wanted[i] for i in indices),
        )
        for indices in cut(list(wanted), most_rows)
    ]


def cut(indices: Sequence[int], most: int) -> Iterator[list[int]]:
    """Pieces of at most so many."""
    for start in range(0, len(indices), most):
        yield list(indices[start : start + most])


def _part(
    rows: Sequence[SamplingRow],
    places: Sequence[int],
    indices: list[int],
    kind: Kind,
    device: torch.device,
) -> Part:
    chosen = [rows[i] for i in indices]
    where = np.array([indices, [places[i] for i in indices]], np.int64)
    index, at = to_device(where, device).unbind()
    edits = edits_of(chosen, device) if kind.is_changed else None
    return Part(chosen, indices, index, at, kind.is_greedy, edits)
