"""What a rank computes and samples: as alone, but a greedy step tells pairs instead of logits."""

from functools import partial
from math import isfinite

from torch import Tensor

from mini_vllm.spec_decode.verify import accept
from mini_vllm.step import SampledToken, SamplingRow, StepInput
from mini_vllm.worker.input_batch import PackedStep
from mini_vllm.worker.model_runner import Collect, ModelRunner


class RankRunner(ModelRunner):
    """Every rank samples, and all get the same tokens: what they draw depends on nothing else."""

    def _sample_from(self, step: StepInput, packed: PackedStep, hidden: Tensor) -> Collect:
        """From the largest logit of each rank, if that is all that the step needs."""
        rows = [self.batch.sampling_rows[name] for name in step.sample_req_ids]
        if rows and not step.masks and not step.prompt_targets and all(map(needs_only_peak, rows)):
            logits = self.model.compute_own_logits(hidden[packed.sample_rows])
            peaks, found = self.model.vocab_shard.argmax(logits)
            if all(map(isfinite, peaks.tolist())):  # what is not, the sampler can explain
                table = self.batch.sampling
                places = table.batch(step.sample_req_ids, len(rows)).places
                table.last_token_ids.index_copy_(0, places, found.long())
                tokens = [SampledToken(int(each), None) for each in found.tolist()]
                return partial(accept, step, tokens)
        return super()._sample_from(step, packed, hidden)


def needs_only_peak(row: SamplingRow) -> bool:
    """Whether a token is that of its largest logit, and nothing else is asked for."""
    params = row.params
    return row.is_greedy and not params.changes_logits and params.logprobs is None
