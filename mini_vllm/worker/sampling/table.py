"""What the device remembers of each request for sampling, by row; a step sends what is new.

A row is written when its request is new, and its tokens, which penalties look at, step by step.
Source: SamplingStates in vllm/v1/worker/gpu/sample/states.py, PenaltiesState in
vllm/v1/worker/gpu/sample/penalties.py.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mini_vllm.attention.metadata import to_device
from mini_vllm.step import SamplingRow, StepInput
from mini_vllm.worker.feed import PLACEHOLDER
from mini_vllm.worker.sampling.logits import upload
from mini_vllm.worker.sampling.parts import LogprobRows, Part, logprob_rows, parts_of

NUMBERS = (
    *("temperature", "min_p", "top_k", "top_p"),
    *("repetition_penalty", "frequency_penalty", "presence_penalty"),
)


class Batch(NamedTuple):
    """The S rows of a step. places [S]: their rows in the table."""

    rows: list[SamplingRow]
    places: Tensor
    parts: list[Part]
    logprobs: list[LogprobRows]

    @property
    def order(self) -> list[int]:
        """The rows in the order of the parts."""
        return [i for part in self.parts for i in part.indices]


class SamplingTable:
    """rows: how each request samples; row_of: where its numbers and tokens are; looking_back: the
    same, of requests whose penalties look at their tokens.

    numbers [7, rows] float64, in the order of NUMBERS. num_prompt_tokens [rows]. tokens [rows,
    length] int64: of requests that look back, all that are known. last_token_ids [rows]: what was
    sampled last, which a step one ahead begins with.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.numbers = torch.zeros(len(NUMBERS), 8, dtype=torch.float64, device=device)
        self.num_prompt_tokens = torch.zeros(8, dtype=torch.int64, device=device)
        self.last_token_ids = torch.zeros_like(self.num_prompt_tokens)
        self.tokens = torch.zeros(8, 0, dtype=torch.int64, device=device)
        self.clear()

    def clear(self) -> None:
        """Forget every request."""
        self.rows: dict[str, SamplingRow] = {}
        self.row_of: dict[str, int] = {}
        self._free: list[int] = []
        self.looking_back: dict[str, int] = {}
        self._batch: tuple[object, Batch] | None = None

    def update(self, step: StepInput) -> None:
        """Take in what is new: ended requests, new ones, and the tokens of this step's chunks.

        Drafts are tokens, too; a later step overwrites those that were wrong.
        """
        if step.forget_all:
            self.clear()
        for request_id in step.finished_req_ids:
            self._remove(request_id)
        if step.new_rows:
            for request_id, how in step.new_rows.items():
                self._remove(request_id)
                self._add(request_id, how)
            self._send_rows(step.new_rows)
        if self.looking_back:
            self._send_chunks(step)

    def batch(self, req_ids: Sequence[str], most_rows: int) -> Batch:
        """How the rows of a step are sampled, at most most_rows at once: the same object as long as
        the batch is the same.
        """
        key = tuple(req_ids), most_rows
        if self._batch is None or self._batch[0] != key:
            rows = [self.rows[request_id] for request_id in req_ids]
            places = [self.row_of[request_id] for request_id in req_ids]
            parts = parts_of(rows, places, most_rows, self.device)
            self._batch = (
                key,
                Batch(
                    rows,
                    upload(places, self.device),
                    parts,
                    logprob_rows(rows, most_rows, self.device),
                ),
            )
        return self._batch[1]

    def _add(self, request_id: str, how: SamplingRow) -> None:
        self.row_of[request_id] = self._free.pop() if self._free else len(self.row_of)
        self.rows[request_id] = how
        if how.params.looks_back:
            self.looking_back[request_id] = self.row_of[request_id]

    def _remove(self, request_id: str) -> None:
        if self.rows.pop(request_id, None) is not None:
            self._free.append(self.row_of.pop(request_id))
            self.looking_back.pop(request_id, None)
            self._batch = None

    def _send_rows(self, new_rows: Mapping[str, SamplingRow]) -> None:
        """The numbers of new requests, and the tokens that they bring: one upload each."""
        at = [self.row_of[request_id] for request_id in new_rows]
        longest = max(len(how.token_ids) for how in new_rows.values())
        self._make_room(max(at) + 1, longest)
        values = [
            [row, how.num_prompt_tokens, *(float(getattr(how.params, name)) for name in NUMBERS)]
            for row, how in zip(at, new_rows.values(), strict=True)
        ]
        sent = upload(np.array(values, np.float64), self.device)
        rows = sent[:, 0].long()
        self.num_prompt_tokens.index_copy_(0, rows, sent[:, 1].long())
        self.numbers.index_copy_(1, rows, sent[:, 2:].T)
        brought = [
            (row, position, token_id)
            for row, how in zip(at, new_rows.values(), strict=True)
            for position, token_id in enumerate(how.token_ids)
        ]
        self._put_tokens(brought)

    def _send_chunks(self, step: StepInput) -> None:
        found, end = [], 0
        for request_id, start, n in zip(
            step.req_ids, step.num_computed_tokens, step.num_scheduled_tokens, strict=True
        ):
            end += n
            if (row := self.looking_back.get(request_id)) is not None:
                known = enumerate(step.token_ids[end - n : end], start)
                found += [(row, position, token_id) for position, token_id in known]
        self._put_tokens(found)

    def _put_tokens(self, found: Sequence[tuple[int, int, int]]) -> None:
        """found: rows, positions and token ids."""
        if found:
            new = np.array(found, np.int64)
            self._make_room(0, int(new[:, 1].max()) + 1)
            rows, positions, token_ids = to_device(new, self.device).unbind(1)
            last = self.last_token_ids.index_select(0, rows)
            token_ids = torch.where(token_ids == PLACEHOLDER, last, token_ids)
            self.tokens.index_put_((rows, positions), token_ids)

    def _make_room(self, num_rows: int, num_columns: int) -> None:
        rows, columns = self.tokens.shape
        more_rows = max(num_rows, 2 * rows) - rows if num_rows > rows else 0
        more_columns = max(num_columns, 2 * columns, 64) - columns if num_columns > columns else 0
        if more_rows or more_columns:
            pad = torch.nn.functional.pad
            self.tokens = pad(self.tokens, (0, more_columns, 0, more_rows))
            self.numbers = pad(self.numbers, (0, more_rows))
            self.num_prompt_tokens = pad(self.num_prompt_tokens, (0, more_rows))
            self.last_token_ids = pad(self.last_token_ids, (0, more_rows))
