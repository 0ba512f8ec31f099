"""From logits to tokens: one row of logits, one token.

What: penalties, temperature, min_p, top_k, top_p, then a draw, in vLLM's order; the raw
log-probabilities beside it. Why like this: the noise is a function of (seed, choice, position,
token id) and of nothing else. There is no generator whose state a neighbour could advance, so a
request draws the same tokens alone or in any batch, preempted or not. Invariant: the caller's
logits are never written to, and only rows that ask for a thing pay for it: a greedy batch is a
single max. Called by the model runner, once a step. Source: vllm/v1/sample/sampler.py; Steele, Lea
and Flood, "Fast Splittable Pseudorandom Number Generators" (SplitMix64).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite

import torch
from torch import Tensor

from mini_vllm.errors import InvalidLogitsError, shown
from mini_vllm.step import Logprob, Refusal, SampledToken, SamplingRow

GOLDEN_GAMMA = 0x9E3779B97F4A7C15 - (1 << 64)  # SplitMix64's constants, as signed 64-bit integers
MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
MIX_2 = 0x94D049BB133111EB - (1 << 64)
FIRST_GUESS = 256  # a nucleus is rarely larger
CACHE_TOKENS = 1 << 18  # draw so many tokens at a time on a CPU: the temporaries stay in its cache

# by row: all tokens before it, for rows whose penalties look at them
KnownTokens = Mapping[int, Sequence[int]]


class Sampler:
    """Stateless: the same logits and rows give the same tokens."""

    @torch.inference_mode()
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
        token_ids = [0] * len(rows)
        bad: dict[int, str] = {}
        order: list[int] = []
        found = [torch.empty(2, 0, dtype=torch.float64, device=logits.device)]
        for (is_greedy, is_changed), indices in groups_of(rows).items():
            chosen, places = [rows[i] for i in indices], [positions[i] for i in indices]
            part = logits if len(chosen) == len(rows) else logits[indices]
            if is_changed:
                known = {
                    n: known_token_ids[i]
                    for n, i in enumerate(indices)
                    if rows[i].params.looks_back
                }
                part = process_logits(part, chosen, places)
                penalise(part, chosen, known)
            peaks, tokens = part.max(-1)
            if not is_greedy:
                tokens = self.draw(part, peaks, chosen, places)
            order += indices
            # a maximum tells it all: NaN passes on, -inf is that of -inf only
            found.append(torch.stack((tokens.double(), peaks.double())))
        # the one place of a plain step where the host waits for the device
        for i, token_id, peak in zip(order, *torch.cat(found, 1).tolist(), strict=True):
            token_ids[i] = int(token_id)
            if not isfinite(peak):
                bad[i] = _reason(logits[i], rows[i], peak)
        if bad:
            raise InvalidLogitsError(bad)
        logprobs = gather_logprobs(logits, token_ids, [row.params.logprobs for row in rows])
        return [SampledToken(token_id, logprobs.get(i)) for i, token_id in enumerate(token_ids)]

    def draw(
        self, logits: Tensor, peaks: Tensor, rows: Sequence[SamplingRow], positions: Sequence[int]
    ) -> Tensor:
        """Token ids [R]. peaks [R] are the maxima of logits [R, V].

        A subclass may draw otherwise.
        """
        return race(candidates(logits, peaks, rows), keys_of(rows, positions, logits.device))

    def sample_each(
        self,
        logits: Tensor,
        rows: Sequence[SamplingRow],
        positions: Sequence[int],
        known_token_ids: KnownTokens,
    ) -> list[SampledToken | str]:
        """As a call, but a row from which no token can be sampled gives the reason and leaves the
        rest their tokens.

        The noise of a row depends on nothing but the row, so the rest get the tokens that they
        would have got.
        """
        try:
            return list(self(logits, rows, positions, known_token_ids))
        except InvalidLogitsError as error:
            bad = error.rows
        good = [i for i in range(len(rows)) if i not in bad]
        known = {place: known_token_ids[i] for place, i in enumerate(good) if i in known_token_ids}
        tokens = iter(
            self(logits[good], [rows[i] for i in good], [positions[i] for i in good], known)
            if good
            else ()
        )
        return [
            type(bad[i])(f"token {positions[i]}: {bad[i]}") if i in bad else next(tokens)
            for i in range(len(rows))
        ]


def groups_of(rows: Sequence[SamplingRow]) -> dict[tuple[bool, bool], list[int]]:
    """Indices of rows that are sampled alike, by whether they are greedy and whether their logits
    change.
    """
    groups: defaultdict[tuple[bool, bool], list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        groups[row.is_greedy, row.params.changes_logits].append(i)
    return groups


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


def process_logits(logits: Tensor, rows: Sequence[SamplingRow], positions: Sequence[int]) -> Tensor:
    """A float32 copy of logits [R, V], in which each row is changed as its own request asks (vLLM:
    LogitsProcessor).

    What is done depends on the request and the position alone: nothing here has a state that a
    failed step could spoil.
    """
    logits = logits.to(torch.float32, copy=True)
    for scores, row, position in zip(logits, rows, positions, strict=True):
        params = row.params
        if params.allowed_token_ids is not None:
            forbidden = torch.ones_like(scores, dtype=torch.bool)
            forbidden[list(params.allowed_token_ids)] = False
            scores.masked_fill_(forbidden, -torch.inf)
        if position - row.num_prompt_tokens < params.min_tokens:
            going_on = scores.index_fill(0, ending_of(row, scores), -torch.inf)
            # a form that is complete allows nothing but its end
            if bool(going_on.max() > -torch.inf):
                scores.copy_(going_on)
        for token_id, bias in params.logit_bias:
            scores[token_id] += bias
    return logits


def ending_of(row: SamplingRow, scores: Tensor) -> Tensor:
    """The ids that would end the request of a row, on the device of its scores."""
    return torch.tensor(row.ending_token_ids, dtype=torch.int64, device=scores.device)


def penalise(logits: Tensor, rows: Sequence[SamplingRow], token_ids: KnownTokens) -> None:
    """Bad words, and repetition, frequency and presence penalties, in rows of logits [R, V], in
    place (vLLM: apply_bad_words, apply_penalties).

    token_ids: by row, the tokens so far. Repetition looks at the prompt and the output, the other
    ones at the output only. Only seen tokens and the ends of bad words are touched.
    """
    for n, tokens in token_ids.items():
        scores, row = logits[n], rows[n]
        written = tokens[row.num_prompt_tokens :]
        for *before, last in row.params.bad_token_ids:
            if written[len(written) - len(before) :] == before:
                scores[last] = -torch.inf
        counts = Counter(written)
        prompt = set(tokens[: row.num_prompt_tokens])
        seen = torch.tensor([*counts, *prompt - counts.keys()], dtype=torch.int64).to(logits.device)
        penalty, values = row.params.repetition_penalty, scores[seen]
        scores[seen] = torch.where(values > 0, values / penalty, values * penalty)
        output = seen[: len(counts)]
        times = torch.tensor(list(counts.values()), dtype=torch.float32).to(logits.device)
        scores[output] -= row.params.frequency_penalty * times
        scores[output] -= row.params.presence_penalty


# --- the candidates -------------------------------------------------------------------------------


def candidates(logits: Tensor, peaks: Tensor, rows: Sequence[SamplingRow]) -> Tensor:
    """Scores [R, V], -inf for what is no candidate: temperature, min_p, top_k, top_p. peaks [R]:
    the rows' maxima.
    """
    params, vocab_size = [row.params for row in rows], logits.shape[1]
    # the peak at 0: no temperature can overflow it
    scores = logits.float() - peaks.float().unsqueeze(1)
    scores /= torch.tensor([p.temperature for p in params], device=logits.device).unsqueeze(1)
    restrict(scores, [p.min_p for p in params], 0, _keep_min_p)
    restrict(scores, [p.top_k if 0 < p.top_k < vocab_size else 0 for p in params], 0, _keep_top_k)
    restrict(scores, [p.top_p for p in params], 1, _keep_top_p)
    return scores


def keys_of(rows: Sequence[SamplingRow], positions: Sequence[int], device: torch.device) -> Tensor:
    """The keys [R] of the noise for the tokens at these positions."""
    return torch.tensor(
        [row.key(position) for row, position in zip(rows, positions, strict=True)], device=device
    )


def restrict(
    scores: Tensor, limits: Sequence[float], off: float, keep: Callable[[Tensor, Tensor], Tensor]
) -> None:
    """Set to -inf, in place, what keep(scores [r, V], limits [r, 1]) leaves out, in the rows whose
    limit is not off.
    """
    rows = [i for i, limit in enumerate(limits) if limit != off]
    if rows:
        limit = torch.tensor(
            [limits[i] for i in rows], dtype=torch.float64, device=scores.device
        ).unsqueeze(1)
        part = scores[rows]
        scores[rows] = part.masked_fill_(~keep(part, limit), -torch.inf)


def _keep_min_p(scores: Tensor, min_p: Tensor) -> Tensor:
    """p >= min_p * p_max. The peak is at 0, so log(p / p_max) is the score itself."""
    return scores >= min_p.log().float()


def _keep_top_k(scores: Tensor, top_k: Tensor) -> Tensor:
    """Everything at least as likely as the k-th: ties with it stay (vLLM: apply_top_k_only)."""
    k = top_k.long()
    return scores >= scores.topk(int(k.max())).values.gather(1, k - 1)


def _keep_top_p(scores: Tensor, top_p: Tensor) -> Tensor:
    """The smallest set of the most likely tokens whose mass reaches p; among equals the lower token
    ids.
    """
    peak_probability = scores.softmax(-1).amax(-1, keepdim=True)
    guess = min(FIRST_GUESS, scores.shape[1])
    while True:  # sort no more than the nucleus and the token after it
        values = scores.topk(guess).values
        mass = (values.exp() * peak_probability).cumsum(-1, dtype=torch.float64)
        if guess == scores.shape[1] or bool((mass[:, -2:-1] >= top_p).all()):
            break
        guess = min(guess * 8, scores.shape[1])
    num_kept = ((mass < top_p).sum(-1, keepdim=True) + 1).clamp_(max=guess)
    edge = values.gather(1, num_kept - 1)
    kept = scores >= edge
    surplus = (values >= edge).sum(-1, keepdim=True) - num_kept
    # equals of the edge that p has no room for
    for i in surplus.flatten().nonzero().flatten().tolist():
        num_at_edge = int((values[i] == edge[i]).sum() - surplus[i])
        kept[i, (scores[i] == edge[i]).nonzero().flatten()[num_at_edge:]] = False
    return kept


# --- the race -------------------------------------------------------------------------------------


def race(scores: Tensor, keys: Tensor) -> Tensor:
    """Token ids [R] drawn with probability softmax(scores [R, V]): the first arrival of exponential
    clocks.

    Token i rings after E_i / p_i; that one of them rings first has probability p_i. In logarithms
    it is the Gumbel-max trick, argmax(score - log E), which needs neither a normalised distribution
    nor a cumulative sum.
    """
    num_rows, vocab_size = scores.shape
    at_once = max(1, CACHE_TOKENS // vocab_size) if scores.device.type == "cpu" else num_rows
    winners = [
        (part - torch.log1p(-uniforms(part_keys, vocab_size)).neg_().log_()).argmax(-1)
        for part, part_keys in zip(
            torch.split(scores, at_once), torch.split(keys, at_once), strict=True
        )
    ]
    return torch.cat(winners)


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


# --- log-probabilities ----------------------------------------------------------------------------


def gather_logprobs(
    logits: Tensor, token_ids: Sequence[int], num_logprobs: Sequence[int | None]
) -> dict[int, dict[int, Logprob]]:
    """For each row with a number: the sampled token and the number most likely ones, from the raw
    logits.

    A token among these has its place as rank; a sampled one outside has the count of tokens at
    least as likely (vLLM: Sampler.gather_logprobs).
    """
    rows = [i for i, k in enumerate(num_logprobs) if k is not None]
    if not rows:
        return {}
    logprobs = logits[rows].float().log_softmax(-1)
    sampled = logprobs.gather(1, torch.tensor([[token_ids[i]] for i in rows], device=logits.device))
    own = sampled.squeeze(1).tolist()
    ranks = (logprobs >= sampled).sum(-1).tolist()
    top = logprobs.topk(min(max(k for k in num_logprobs if k is not None), logits.shape[1]))
    gathered = {}
    for n, (i, ids, values) in enumerate(
        zip(rows, top.indices.tolist(), top.values.tolist(), strict=True)
    ):
        gathered[i] = {token_ids[i]: Logprob(own[n], ranks[n])}
        best = zip(ids[: num_logprobs[i]], values, range(1, len(ids) + 1), strict=False)
        gathered[i].update({token_id: Logprob(value, rank) for token_id, value, rank in best})
    return gathered
