"""From logits to tokens: one row of logits, one token.

What: penalties, temperature, min_p, top_k, top_p, then a draw, in vLLM's order; the raw
log-probabilities beside it. Why like this: the noise is a function of (seed, choice, position,
token id) and of nothing else. There is no generator whose state a neighbour could advance, so a
request draws the same tokens alone or in any batch, preempted or not. Invariant: the caller's
logits are never written to, and only rows that ask for a thing pay for it: a greedy batch is a
single max. The host asks the device once, when all is done (worker/sampling). Called by the model
runner, once a step. Source: vllm/v1/sample/sampler.py; Steele, Lea and Flood, "Fast Splittable
Pseudorandom Number Generators" (SplitMix64).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf, isfinite
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mini_vllm.attention.metadata import to_device
from mini_vllm.errors import InvalidLogitsError, shown
from mini_vllm.step import Refusal, SampledToken, SamplingRow, StepInput
from mini_vllm.worker.sampling.candidates import Limits, candidates, limits_of
from mini_vllm.worker.sampling.logits import penalise, process_logits
from mini_vllm.worker.sampling.logprobs import compute_logprobs, to_dict
from mini_vllm.worker.sampling.parts import Part
from mini_vllm.worker.sampling.table import Batch, SamplingTable

GOLDEN_GAMMA = 0x9E3779B97F4A7C15 - (1 << 64)  # SplitMix64's constants, as signed 64-bit integers
MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
MIX_2 = 0x94D049BB133111EB - (1 << 64)
# logits that are sampled at a time: 28 bytes each. On a CPU the temporaries stay in its cache.
MOST_LOGITS = 1 << 23
LOGITS_AT_ONCE = {"cpu": 1 << 18}

# by row: all tokens before it, for rows whose penalties look at them
KnownTokens = Mapping[int, Sequence[int]]


class Draw(NamedTuple):
    """What a draw of R rows knows. keys [R] int64: of the noise."""

    rows: Sequence[SamplingRow]
    positions: Sequence[int]
    keys: Tensor
    limits: Limits


@dataclass(frozen=True, slots=True)
class Pending:
    """Tokens that the device is about to know.

    token_ids [S] stay there; answers [n] float64 are all that the host reads.
    """

    batch: Batch
    positions: Sequence[int]
    logits: Tensor
    token_ids: Tensor
    answers: Tensor
    ready: torch.cuda.Event | None

    def read(self) -> list[float]:
        """The one place where the host waits for the device."""
        if self.ready is not None:
            self.ready.synchronize()
        return self.answers.tolist()


class Sampler:
    """Stateless: the same logits and rows give the same tokens."""

    def __call__(
        self,
        logits: Tensor,
        rows: Sequence[SamplingRow],
        positions: Sequence[int],
        known_token_ids: KnownTokens,
    ) -> list[SampledToken]:
        """Sample a token from each row of logits [S, V], any floating dtype; the arithmetic is
        float32.

        positions [S]: the index that the token will have in its sequence. known_token_ids: by row,
        all tokens before it, for each row with penalties.

        Raises InvalidLogitsError naming the rows whose largest logit is NaN or infinite.
        """
        assert logits.shape[0] == len(rows), (logits.shape, len(rows))
        table, names = SamplingTable(logits.device), [str(i) for i in range(len(rows))]
        table.update(
            StepInput(
                new_rows={
                    name: replace(row, token_ids=tuple(known_token_ids.get(i, ())))
                    for i, (name, row) in enumerate(zip(names, rows, strict=True))
                }
            )
        )
        num_known = [len(known_token_ids.get(i, ())) for i in range(len(rows))]
        tokens = self.collect(self.launch(logits, table, names, positions, num_known))
        if bad := {i: each for i, each in enumerate(tokens) if isinstance(each, str)}:
            raise InvalidLogitsError(bad)
        return [each for each in tokens if isinstance(each, SampledToken)]

    @torch.inference_mode()
    def launch(
        self,
        logits: Tensor,
        table: SamplingTable,
        req_ids: Sequence[str],
        positions: Sequence[int],
        num_known: Sequence[int] | None = None,
    ) -> Pending:
        """Ask the device for a token of each row; the host waits for nothing.

        req_ids [S]: whose rows, which the table knows. num_known [S]: how many of its tokens count,
        all before the position unless given.
        """
        most = LOGITS_AT_ONCE.get(logits.device.type, MOST_LOGITS) // max(1, logits.shape[1])
        batch = table.batch(req_ids, max(1, most))
        noise = self._noise(batch, (positions, num_known or positions), logits.device)
        found = [self._sample(part, logits, table, positions, noise) for part in batch.parts]
        token_ids, peaks = torch.cat(found or [logits.new_empty(2, 0).double()], 1)
        if len(batch.parts) > 1:
            order = torch.cat([part.index for part in batch.parts])
            token_ids = token_ids.index_copy(0, order, token_ids)
        ids = token_ids.long()
        logprobs = [
            compute_logprobs(logits[each.places], ids[each.places], each.most)
            for each in batch.logprobs
        ]
        answers = torch.cat(
            [token_ids, peaks, *(values.flatten() for each in logprobs for values in each)]
        )
        return Pending(batch, positions, logits, ids, *bring(answers))

    def collect(self, pending: Pending) -> list[SampledToken | str]:
        """Wait for the tokens. A row from which none can be sampled gives the reason; it changes no
        other row.
        """
        rows, logits = pending.batch.rows, pending.logits
        answers = iter(pending.read())
        token_ids = [int(each) for each in islice(answers, len(rows))]
        peaks = dict(zip(pending.batch.order, islice(answers, len(rows)), strict=True))
        found: list[SampledToken | str] = [SampledToken(each, None) for each in token_ids]
        for part in pending.batch.logprobs:
            n, k = len(part.indices), min(part.most, logits.shape[1])
            own, ids, values = (list(islice(answers, n * width)) for width in (2, k, k))
            for place, i in enumerate(part.indices):
                row = own[2 * place :], ids[k * place :][:k], values[k * place :][:k]
                wanted = rows[i].params.logprobs or 0
                found[i] = SampledToken(token_ids[i], to_dict(token_ids[i], wanted, *row))
        for i, peak in peaks.items():
            if not isfinite(peak):
                reason = _reason(logits[i], rows[i], peak)
                found[i] = type(reason)(f"token {pending.positions[i]}: {reason}")
        return found

    def draw(self, logits: Tensor, peaks: Tensor, how: Draw) -> Tensor:
        """Token ids [R]. peaks [R] are the maxima of logits [R, V].

        A subclass may draw otherwise.
        """
        return race(candidates(logits, peaks, how.limits), how.keys)

    def _noise(
        self, batch: Batch, places: Sequence[Sequence[int]], device: torch.device
    ) -> Tensor | None:
        """Positions, known tokens and keys of the step's rows, [3, S]: one upload, and none for
        plain maxima.
        """
        if all(part.is_greedy and part.edits is None for part in batch.parts):
            return None
        keys = [
            0 if row.is_greedy else row.key(position)
            for row, position in zip(batch.rows, places[0], strict=True)
        ]
        return to_device(np.array([*places, keys], np.int64), device)

    def _sample(
        self,
        part: Part,
        logits: Tensor,
        table: SamplingTable,
        positions: Sequence[int],
        noise: Tensor | None,
    ) -> Tensor:
        """Token ids and largest logits of a part, [2, R] float64."""
        scores = part.of(logits)
        if noise is None:
            peaks, tokens = scores.max(-1)
            return torch.stack((tokens.double(), peaks.double()))
        at, num_known, keys = part.of_columns(noise)
        chosen = [positions[i] for i in part.indices]
        numbers = table.numbers.index_select(1, part.places)
        if part.edits is not None:
            scores = scores.to(torch.float32, copy=True)
            num_prompt = table.num_prompt_tokens.index_select(0, part.places)
            process_logits(scores, part.edits, at - num_prompt)
            if part.edits.looks_back:
                tokens = table.tokens.index_select(0, part.places)
                num_tokens = torch.stack((num_known, num_prompt), 1)
                penalise(scores, part.edits, tokens, num_tokens, numbers[4:])
        # a maximum tells it all: NaN passes on, -inf is that of -inf only
        peaks, tokens = scores.max(-1)
        if not part.is_greedy:
            limits = limits_of(part.rows, numbers[:4])
            tokens = self.draw(scores, peaks, Draw(part.rows, chosen, keys, limits))
        return torch.stack((tokens.double(), peaks.double()))


def bring(answers: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
    """Begin to copy to the host, and what says that the copy is there; on a CPU nothing is
    copied.
    """
    if answers.device.type != "cuda":
        return answers, None
    host = torch.empty_like(answers, device="cpu", pin_memory=True)
    host.copy_(answers, non_blocking=True)
    ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
    ready.record()
    return host, ready


def _reason(logits: Tensor, row: SamplingRow, peak: float) -> str:
    """Why no token can be sampled from masked logits [V] whose penalised maximum is peak, which is
    not finite.
    """
    params, largest = row.params, logits.max().item()
    words = params.bad_words or params.bad_token_ids
    acting = [
        f"{name} {shown(value)}"
        for name, value, neutral in (
            ("repetition_penalty", params.repetition_penalty, 1),
            ("frequency_penalty", params.frequency_penalty, 0),
            ("presence_penalty", params.presence_penalty, 0),
            ("allowed_token_ids", params.allowed_token_ids, None),
            ("logit_bias", params.logit_bias, ()),
            ("min_tokens", params.min_tokens, 0),
            ("bad_words", words, ()),
            ("structured", params.structured and params.structured.key, None),
        )
        if value != neutral
    ]
    if isfinite(largest) or (params.structured is not None and largest == -inf):
        return Refusal(
            f"with {', '.join(acting)} the largest logit becomes {peak}, it must be finite"
        )
    return f"the largest logit is {largest}, it must be finite"


# --- the race -------------------------------------------------------------------------------------


def race(scores: Tensor, keys: Tensor) -> Tensor:
    """Token ids [R] drawn with probability softmax(scores [R, V]): the first arrival of exponential
    clocks.

    Token i rings after E_i / p_i; that one of them rings first has probability p_i. In logarithms
    it is the Gumbel-max trick, argmax(score - log E), which needs neither a normalised distribution
    nor a cumulative sum.
    """
    noise = torch.log1p(-uniforms(keys, scores.shape[1])).neg_().log_()
    return (scores - noise).argmax(-1)


def uniforms(keys: Tensor, vocab_size: int) -> Tensor:
    """One float32 in (0, 1) per key and token, [R, V]: token i is draw i of the SplitMix64 stream
    that starts at keys.

    Small values keep all 53 bits of precision: they win the race, and a coarse grid would give ties
    to low token ids.
    """
    z = torch.arange(1, vocab_size + 1, device=keys.device) * GOLDEN_GAMMA + keys.unsqueeze(1)
    z = (z ^ _shift_right(z, 30)).mul_(MIX_1)
    z = (z ^ _shift_right(z, 27)).mul_(MIX_2)
    bits = _shift_right(z ^ _shift_right(z, 31), 11)
    return bits.float().add_(0.5).mul_(2.0**-53).clamp_(max=1 - 2.0**-24)


def _shift_right(z: Tensor, n: int) -> Tensor:
    """Logical shift: torch's own repeats the sign."""
    return (z >> n).bitwise_and_((1 << (64 - n)) - 1)
