"""Decode freely, verify in a fixed shape, roll back: draft_model="self".

The model drafts for itself: it decodes some tokens of all requests together, as fast as it can, and
their bits depend on the batch. The next step computes these tokens again, in products of one shape
and with attention that cuts every query alike, and overwrites their keys and values. A draft that
is not the token of this step goes back, with all behind it. So every token that a request gets, and
every block that is published, comes from a step whose bits do not depend on the batch. Source:
LLM-42 (arXiv 2601.17768).
"""

from collections.abc import Iterable

from mini_vllm.attention import AttentionBackend, get_backend
from mini_vllm.models.moe.rungs import fix_sums
from mini_vllm.step import Chunk, ModelInfo, Sample, StepInput, StepOutput
from mini_vllm.worker.chunks import chunks_of
from mini_vllm.worker.draft_model import DraftModelExecutor, behind_answer
from mini_vllm.worker.local_executor import LocalExecutor
from mini_vllm.worker.memory import KVCachePlan
from mini_vllm.worker.model_runner import ModelRunner
from mini_vllm.worker.products.fixed_shape import FixedShape

SELF = "self"
BACKENDS = ("c",)  # whose attention can cut every query alike


class TwoWayRunner(ModelRunner):
    """Runs a step as the executor says, or freely, on the same requests and the same KV cache."""

    free_backend: AttentionBackend

    def decode_freely(self, chunks: Iterable[Chunk]) -> StepOutput:
        """The next token of these requests, whose bits depend on the batch."""
        verifying, self.attention_backend = self.attention_backend, self.free_backend
        try:
            return self.execute(StepInput.of(chunks))
        finally:
            self.attention_backend = verifying


class SelfVerifyingExecutor(DraftModelExecutor):
    """Runs a step in one shape, then drafts behind its answer; the proposer of the scheduler.

    Raises InvalidParameterError for what has no such shape here: a quantization, recorded forwards,
    ranks, batch_invariant, which it replaces, and back ends but those in BACKENDS.
    """

    runner_cls = TwoWayRunner
    runner: TwoWayRunner

    def load(self) -> ModelInfo:
        config, info = self.config, LocalExecutor.load(self)
        self.free_backend, name = self.attention_backend, self.attention_backend.name
        mode = config.cudagraph_mode or "none"
        size = config.tensor_parallel_size
        chosen = config.quantization, mode, config.batch_invariant, size
        config.require(
            "draft_model",
            chosen == (None, "none", False, 1) and name in BACKENDS,
            "a model but 'self' with quantization, cudagraph_mode, batch_invariant and "
            f"tensor_parallel_size {chosen}, and attention_backend {name!r}: 'self' needs None, "
            f"'none', False and 1, and one of {BACKENDS}",
        )
        self.attention_backend = get_backend(name, self.device, self.dtype, batch_invariant=True)
        self.products = FixedShape()
        fix_sums(self.model)
        return info

    def allocate(self, plan: KVCachePlan) -> None:
        LocalExecutor.allocate(self, plan)
        self.runner.free_backend = self.free_backend
        self.max_len = plan.max_model_len
        self._drafts: dict[str, list[int]] = {}
        self._lengths: dict[str, int] = {}

    def run(self, step: StepInput) -> StepOutput:
        """The step, which verifies; then as many free decodes as a request wants drafts."""
        result = LocalExecutor.run(self, step)
        answered = [chunk for chunk in chunks_of(step) if result.tokens.get(chunk.request_id)]
        chunks = [newest(behind_answer(chunk, result)) for chunk in answered]
        self._drafts |= {chunk.request_id: [] for chunk in chunks}
        while wanting := [chunk for chunk in map(self._within, chunks) if chunk.samples]:
            tokens = self.runner.decode_freely(wanting).tokens
            chunks = []
            for chunk in wanting:
                for token in tokens.get(chunk.request_id, ()):  # none where no token is allowed
                    self._drafts[chunk.request_id].append(token.token_id)
                    start = chunk.num_computed_tokens + 1
                    chunks.append(
                        chunk._replace(token_ids=(token.token_id,), num_computed_tokens=start)
                    )
        return result


def newest(chunk: Chunk) -> Chunk:
    """The last token of a chunk, whose other keys and values are in the cache."""
    start = chunk.num_computed_tokens + len(chunk.token_ids) - 1
    return Chunk(chunk.request_id, chunk.token_ids[-1:], start, (), (Sample(chunk.request_id, 0),))


def drafting_executor(draft_model: str | None) -> type[DraftModelExecutor]:
    """The executor for speculative="draft_model"."""
    return SelfVerifyingExecutor if draft_model == SELF else DraftModelExecutor
