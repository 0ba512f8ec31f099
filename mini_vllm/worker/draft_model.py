"""A second, smaller model that drafts: it takes part in every step, on the block tables of the
first one.

Both compute the same tokens into caches of their own, so blocks are shared, found, copied and
swapped for both at once. When the target has answered, the draft model goes on behind its answer,
token by token. The next step verifies. Source: vllm/v1/spec_decode/draft_model.py;
vllm/v1/sample/rejection_sampler.py.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mini_vllm.errors import InvalidParameterError
from mini_vllm.models.checkpoint import resolve_model
from mini_vllm.request import Request
from mini_vllm.spec_decode.proposers import Proposer
from mini_vllm.step import Chunk, ModelInfo, Sample, SamplingRow, StepInput, StepOutput
from mini_vllm.worker.chunks import chunks_of
from mini_vllm.worker.local_executor import LocalExecutor
from mini_vllm.worker.memory import KVCachePlan
from mini_vllm.worker.sampler import Draw, Sampler, race, uniforms
from mini_vllm.worker.sampling.candidates import candidates

# what makes three unrelated streams of one key
DRAFT, COIN = 0x5851F42D4C957F2D, 0x14057B7EF767814F

Proposals = dict[int, tuple[SamplingRow, dict[int, tuple[int, Tensor]]]]
"""By id of a sampling row: the row, which so stays alive; and by position a draft and its
distribution [V].
"""


class DraftSampler(Sampler):
    """Draws drafts as their request samples, with other noise, and keeps the distribution of
    each.
    """

    def __init__(self, proposals: Proposals) -> None:
        self.proposals = proposals

    def draw(self, logits: Tensor, peaks: Tensor, how: Draw) -> Tensor:
        scores = candidates(logits, peaks, how.limits)
        drafts = race(scores, how.keys ^ DRAFT)
        for row, position, draft, q in zip(
            how.rows, how.positions, drafts.tolist(), scores.softmax(-1), strict=True
        ):
            self.proposals[id(row)][1][position] = draft, q
        return drafts


def rejection_weights(p: Tensor, q: Tensor, drafts: Tensor, coins: Tensor) -> Tensor:
    """Weights [R, V] by which a token is drawn where a draft was drawn from q: those of the draft
    alone if it is taken.

    p, q [R, V]: distributions of the target and of the draft; drafts [R, 1]: token ids; coins [R,
    1], in (0, 1).
    """
    rest = (p - q).clamp_(min=0)
    is_taken = coins * q.gather(1, drafts) < p.gather(1, drafts)
    is_taken |= rest.sum(-1, keepdim=True) == 0  # p and q differ in rounding only
    only_draft = torch.zeros_like(rest).scatter_(1, drafts, 1.0)
    return torch.where(is_taken, only_draft, rest)


class RejectionSampler(DraftSampler):
    """Where there is a draft x from a distribution q, it is taken with probability min(1, p(x) /
    q(x)).

    Else a token is drawn from max(p - q, 0), normalised, which is never x. So the token has the
    target's distribution p exactly, whatever q is. Its noise is independent of the draft's, and
    depends on the seed and the position alone. Source: Leviathan et al. 2023 (arXiv 2211.17192),
    theorem 3.5; Chen et al. 2023 (arXiv 2302.01318).
    """

    def draw(self, logits: Tensor, peaks: Tensor, how: Draw) -> Tensor:
        scores, keys = candidates(logits, peaks, how.limits), how.keys
        found = [
            self.proposals[id(row)][1].get(position) if id(row) in self.proposals else None
            for row, position in zip(how.rows, how.positions, strict=True)
        ]
        at = [n for n, proposal in enumerate(found) if proposal is not None]
        if at:
            drafts = torch.tensor(
                [[each[0]] for each in found if each is not None], device=logits.device
            )
            q = torch.stack([each[1] for each in found if each is not None])
            p = scores[at].softmax(-1)
            scores[at] = rejection_weights(p, q, drafts, uniforms(keys[at] ^ COIN, 1)).log()
        return race(scores, keys)


class DraftModelExecutor(LocalExecutor):
    """Runs the target and then the draft model, and is the proposer of the scheduler in this
    process.

    Raises InvalidParameterError for a draft model with another vocabulary than the target's.
    """

    def load(self) -> ModelInfo:
        """The target's vocabulary, and the layers of both: a block holds K and V of both."""
        config, info = self.config, super().load()
        names = config.model, str(config.draft_model)
        self.drafter = LocalExecutor(
            replace(
                config,
                model=names[1],
                speculative=None,
                draft_model=None,
                async_scheduling=False,  # it runs in the steps of this one
            )
        )
        self.draft_info = self.drafter.load()
        if info.vocab_size != self.draft_info.vocab_size or read_vocabulary(
            names[0]
        ) != read_vocabulary(names[1]):
            sizes = (
                f"{names[1]} has {self.draft_info.vocab_size} tokens and {names[0]} "
                f"{info.vocab_size}"
            )
            raise InvalidParameterError(
                f"draft_model must have the tokenizer of the model: {sizes}, or other texts"
            )
        return ModelInfo(info.vocab_size, info.kv_specs + self.draft_info.kv_specs)

    def allocate(self, plan: KVCachePlan) -> None:
        """Raises InvalidParameterError for groups of layers: both models use one block table."""
        if groups := plan.layout.layer_groups:
            raise InvalidParameterError(f"draft_model needs one group of layers, got {groups}")
        super().allocate(plan)
        self.drafter.allocate(
            replace(plan, bytes_per_block=self.draft_info.bytes_per_token * plan.block_size)
        )
        self.max_len = plan.max_model_len
        self.proposals: Proposals = {}
        self.runner.sampler = RejectionSampler(self.proposals)
        self.drafter.runner.sampler = DraftSampler(self.proposals)
        self._drafts: dict[str, list[int]] = {}
        self._lengths: dict[str, int] = {}  # of the drafts that the scheduler asks for

    def _make_proposer(self) -> Proposer:
        return self

    def run(self, step: StepInput) -> StepOutput:
        """The step, and the same for the draft model, which then goes on as long as a request wants
        drafts.
        """
        result, rows = super().run(step), self.runner.batch.sampling_rows
        for key in self.proposals.keys() - {id(row) for row in rows.values()}:
            del self.proposals[key]
        chunks = [behind_answer(chunk, result) for chunk in chunks_of(step)]
        ends = {
            chunk.request_id: chunk.num_computed_tokens + len(chunk.token_ids) for chunk in chunks
        }
        for request_id in ends:
            self._drafts[request_id] = []
            self.proposals[id(rows[request_id])] = rows[request_id], {}
        rest: dict[str, Any] = {
            name: getattr(step, name) for name in ("finished_req_ids", "forget_all", "kv")
        }
        part = StepInput.of(map(self._within, chunks), step.new_rows, **rest)
        while True:
            following = []
            for request_id, (token,) in self.drafter.run(part).tokens.items():
                start = ends[request_id] + len(self._drafts[request_id])
                self._drafts[request_id].append(token.token_id)
                sample = (Sample(request_id, 0),)
                following.append(
                    self._within(Chunk(request_id, (token.token_id,), start, (), sample))
                )
            part = StepInput.of(chunk for chunk in following if chunk.samples)
            if not part.req_ids:
                return result

    def _within(self, chunk: Chunk) -> Chunk:
        """Without its sample, if the request wants no more drafts; without what has no slot, at the
        longest length.
        """
        wanted = self._lengths.get(chunk.request_id, self.config.num_speculative_tokens)
        num_slots = self.max_len - chunk.num_computed_tokens
        goes_on = len(chunk.token_ids) <= num_slots and len(self._drafts[chunk.request_id]) < wanted
        return chunk._replace(
            token_ids=chunk.token_ids[:num_slots], samples=chunk.samples if goes_on else ()
        )

    def propose(self, request: Request, num_tokens: int) -> Sequence[int]:
        self._lengths[request.request_id] = num_tokens
        return self._drafts.get(request.request_id, ())[:num_tokens]

    def forget(self, request: Request) -> None:
        self._drafts.pop(request.request_id, None)
        self._lengths.pop(request.request_id, None)


def behind_answer(chunk: Chunk, result: StepOutput) -> Chunk:
    """What a step has settled of a request: its chunk without rejected drafts, and the newest
    token.
    """
    tokens = result.tokens.get(chunk.request_id)
    if not tokens:
        return chunk._replace(samples=())
    num_settled = len(chunk.token_ids) - len(chunk.samples) + len(tokens)
    token_ids = (*chunk.token_ids[:num_settled], tokens[-1].token_id)
    return chunk._replace(token_ids=token_ids, samples=(Sample(chunk.request_id, num_settled),))


def read_vocabulary(model: str) -> object:
    """The texts of a model's tokens, as its tokenizer.json has them; None without one."""
    file = resolve_model(model) / "tokenizer.json"
    return json.loads(file.read_text(encoding="utf-8"))["model"]["vocab"] if file.exists() else None
