"""From one row of logits to one token, in plain Python: the sampler beside NumpyExecutor.

The rules, their order and the noise are those of sampler.py: the noise is a function of seed,
choice, position and token id, so both draw the same token. What else a request may ask of its
logits is left to torch, and refused here.
"""

from array import array
from collections.abc import Sequence
from itertools import accumulate, takewhile
from math import exp, inf, isfinite, log, log1p

from mini_vllm.step import Refusal, SampledToken, SamplingRow

TORCH_ALONE = (
    "logprobs, prompt_logprobs, presence_penalty, frequency_penalty, repetition_penalty, "
    "min_tokens, logit_bias, bad_words and allowed_token_ids"
)
MASK = (1 << 64) - 1
# SplitMix64
GOLDEN_GAMMA, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def sample(
    logits: Sequence[float], row: SamplingRow, position: int, mask: bytes | None = None
) -> SampledToken | str:
    """The token that gets this index of its sequence, or why there is none. mask: as in
    StepInput.
    """
    params = row.params
    if params.changes_logits or (params.logprobs, params.prompt_logprobs) != (None, None):
        return f"NumpyExecutor has none of {TORCH_ALONE}: they need torch"
    is_finite = isfinite(sum(logits))
    if mask is not None:
        logits = [x if mask[i // 8] >> i % 8 & 1 else -inf for i, x in enumerate(logits)]
    peak = max(logits)
    if not is_finite or peak == -inf:
        kind = Refusal if is_finite else str
        return kind(f"token {position}: the logits must be finite, the largest is {peak}")
    token_id = (
        list(logits).index(peak)
        if row.is_greedy
        else draw([x - peak for x in logits], row, position)
    )
    return SampledToken(token_id, None)


def draw(scores: Sequence[float], row: SamplingRow, position: int) -> int:
    """A token with probability softmax(scores / temperature), of those that min_p, top_k and top_p
    leave.
    """
    params = row.params
    scores = [x / params.temperature for x in scores]
    # of equals the lower id is first
    kept = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
    if params.min_p:
        kept = [i for i in kept if scores[i] >= log(params.min_p)]
    if params.top_k > 0:
        edge = scores[kept[min(params.top_k, len(kept)) - 1]]
        kept = [i for i in kept if scores[i] >= edge]
    if params.top_p < 1:
        mass = list(accumulate(exp(scores[i]) for i in kept))
        kept = kept[
            : 1 + sum(1 for _ in takewhile(lambda reached: reached < params.top_p * mass[-1], mass))
        ]
    noise = gumbels(kept, row.key(position))
    return max(zip(kept, noise, strict=True), key=lambda each: scores[each[0]] + each[1])[0]


def gumbels(token_ids: Sequence[int], key: int) -> list[float]:
    """The noise of each token: draw i of the SplitMix64 stream that starts at key, rounded to
    float32 as in torch.
    """
    draws = array("f")
    for i in token_ids:
        z = key + (i + 1) * GOLDEN_GAMMA & MASK
        z = (z ^ z >> 30) * MIX_1 & MASK
        z = (z ^ z >> 27) * MIX_2 & MASK
        draws.append((z ^ z >> 31) >> 11)
    return [-log(-log1p(-min((bits + 0.5) * 2.0**-53, 1 - 2.0**-24))) for bits in draws]
