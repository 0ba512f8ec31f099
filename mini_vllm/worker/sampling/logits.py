"""What requests change of their logits, for all rows at once. Nothing here asks the device.

What is done depends on the request, the position and the tokens alone: nothing has a state that a
failed step could spoil. Source: LogitsProcessor, apply_bad_words and apply_penalties of vLLM.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mini_vllm.attention.metadata import to_device
from mini_vllm.step import SamplingRow


class Pairs(NamedTuple):
    """Places in logits [R, V]: rows [n] and token ids [n]."""

    rows: Tensor
    token_ids: Tensor


class Edits(NamedTuple):
    """What R rows ask for; it stays while the rows do. None: no row asks for it."""

    allowed: tuple[Tensor, Pairs] | None  # the rows [n] with a list, and what is on the lists
    endings: tuple[Tensor, Pairs] | None  # min_tokens [R], and the ids that would end a row
    biases: tuple[Tensor, Pairs] | None  # [n] float32, and where
    words: tuple[Tensor, Pairs] | None  # before [n, M], -1 where shorter; the last tokens
    looks_back: bool


def edits_of(rows: Sequence[SamplingRow], device: torch.device) -> Edits:
    """The edits of these rows, uploaded."""
    params = [row.params for row in rows]

    def pairs(ids_by_row: Iterable[Iterable[int]]) -> Pairs | None:
        lists = [np.fromiter(ids, np.int64) for ids in ids_by_row]
        rows = np.arange(len(lists)).repeat([*map(len, lists)])
        return Pairs(*upload([rows, np.concatenate(lists)], device)) if rows.size else None

    def beside(values: Any, where: Pairs | None) -> tuple[Tensor, Pairs] | None:
        return None if where is None else (upload(values, device), where)

    listed = [i for i, p in enumerate(params) if p.allowed_token_ids is not None]
    words = [word for p in params for word in p.bad_token_ids]
    longest = max((len(word) - 1 for word in words), default=0)
    before = [[-1] * (longest + 1 - len(word)) + list(word[:-1]) for word in words]
    biases = [bias for p in params for _, bias in p.logit_bias]
    return Edits(
        beside(listed, pairs(p.allowed_token_ids or () for p in params)),
        beside(
            [p.min_tokens for p in params],
            pairs(row.ending_token_ids if row.params.min_tokens else () for row in rows),
        ),
        beside(np.array(biases, np.float32), pairs(dict(p.logit_bias) for p in params)),
        beside(before, pairs([word[-1] for word in p.bad_token_ids] for p in params)),
        any(p.looks_back for p in params),
    )


def upload(values: Any, device: torch.device) -> Tensor:
    """Numbers of the host, as int64 if they are whole; the host does not wait."""
    return to_device(np.asarray(values), device)


def process_logits(scores: Tensor, edits: Edits, num_outputs: Tensor) -> None:
    """Change float32 scores [R, V], in place, by lists, minimum lengths and biases. num_outputs
    [R]: tokens of the output before this one.
    """
    if edits.allowed is not None:
        listed, (rows, token_ids) = edits.allowed
        is_allowed = torch.ones_like(scores, dtype=torch.bool).index_fill_(0, listed, False)
        is_allowed[rows, token_ids] = is_allowed.new_ones(())
        scores.masked_fill_(~is_allowed, -torch.inf)
    if edits.endings is not None:
        min_tokens, (rows, token_ids) = edits.endings
        going_on = scores.index_put((rows, token_ids), scores.new_full((), -torch.inf))
        # a form that is complete allows nothing but its end
        goes_on = (num_outputs < min_tokens) & (going_on.amax(-1) > -torch.inf)
        torch.where(goes_on.unsqueeze(1), going_on, scores, out=scores)
    if edits.biases is not None:
        biases, places = edits.biases
        scores.index_put_(tuple(places), biases, accumulate=True)


def penalise(
    scores: Tensor, edits: Edits, tokens: Tensor, num_tokens: Tensor, penalties: Tensor
) -> None:
    """Bad words, then repetition, frequency and presence penalties, in float32 scores [R, V], in
    place. Repetition looks at the prompt and the output, the other ones at the output only.

    tokens [R, L]: of which the first num_tokens[:, 0] are known; num_tokens[:, 1] of them are the
    prompt's. penalties [3, R].
    """
    length, num_prompt = num_tokens.unsqueeze(2).unbind(1)
    at = torch.arange(tokens.shape[1], device=tokens.device)
    is_known, is_prompt = (at < length) & (tokens >= 0), at < num_prompt  # below 0: padding
    if edits.words is not None:
        before, (rows, last) = edits.words
        place = length[rows] + torch.arange(-before.shape[1], 0, device=tokens.device)
        # a word is not begun by the prompt
        written = tokens[rows.unsqueeze(1), place.clamp(0, tokens.shape[1] - 1)]
        written = written.masked_fill(place < num_prompt[rows], -2)
        is_begun = ((written == before) | (before < 0)).all(-1)
        banned = torch.zeros_like(scores, dtype=torch.int32)
        banned.index_put_((rows, last), is_begun.int(), accumulate=True)
        scores.masked_fill_(banned > 0, -torch.inf)
    repetition, frequency, presence = penalties.float().unsqueeze(2)
    # What is behind a row's tokens repeats the first one: all that is written to a place is equal.
    ids = torch.where(is_known, tokens, tokens[:, :1]).clamp_(min=0)
    counts = torch.zeros_like(scores).scatter_add_(1, ids, (is_known & ~is_prompt).float())
    times, values = counts.gather(1, ids), scores.gather(1, ids)
    repetition = torch.where(length > 0, repetition, 1)
    values = torch.where(values > 0, values / repetition, values * repetition)
    values -= frequency * times
    values -= presence * (times > 0)
    scores.scatter_(1, ids, values)
