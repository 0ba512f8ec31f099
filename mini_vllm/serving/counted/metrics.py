"""What the engine counts by itself, as GET /metrics tells it."""

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily

from mini_vllm.offload.remote.work import TransferStats
from mini_vllm.serving.messages import StepDone
from mini_vllm.spec_decode.scheduler import SpeculationStats

SPECULATION = {  # of SpeculationStats
    "num_drafts": "Times that drafts of a request were verified.",
    "num_draft_tokens": "Drafts that were verified.",
    "num_accepted_tokens": "Drafts that were right.",
    "num_accepted_tokens_per_pos": "Drafts that were right, by their place among those of a step.",
}
TRANSFERS = {  # of TransferStats
    "num_lent": ("mini_vllm:kv_lent_blocks", "Blocks of prompts that were lent."),
    "num_expired": ("vllm:nixl_num_kv_expired_reqs", "Leases of blocks that have run out."),
    "num_pulled": ("mini_vllm:kv_pulled_blocks", "Blocks that came from another engine."),
    "num_missed": ("mini_vllm:kv_missed_blocks", "Blocks that did not come."),
    "num_failed": ("vllm:nixl_num_failed_transfers", "Prompts whose blocks did not all come."),
}
Figure = tuple[str, str, tuple[str, ...], dict[Any, int]]
"""Name, text, the labels beside the model's, and the counts by the values of these."""


class CountedMetrics:
    """A collector of the registry. speculation: nothing yet, or None without drafts."""

    def __init__(
        self, registry: CollectorRegistry, model_name: str, speculation: SpeculationStats | None
    ) -> None:
        self._model_name, self._speculation = model_name, speculation
        self._loads: dict[int, list[int]] = {}
        self._transfers: TransferStats | None = None
        registry.register(self)

    def take(self, done: StepDone) -> None:
        """The engine has spoken. It tells the loads of the experts now and then."""
        self._speculation, self._loads = done.speculation, done.expert_loads or self._loads
        self._transfers = done.transfers

    def collect(self) -> Iterator[Any]:
        """The registry calls it."""
        for name, text, labels, counts in self._figures():
            family = CounterMetricFamily(name, text, labels=("model_name", *labels))
            for values, count in counts.items():
                family.add_metric((self._model_name, *values), count)
            yield family

    def _figures(self) -> Iterator[Figure]:
        for name, text in SPECULATION.items() if self._speculation else ():
            counts = getattr(self._speculation, name)
            if name.endswith("_per_pos"):
                by_place = {(str(i),): n for i, n in enumerate(counts)}
                yield f"vllm:spec_decode_{name}", text, ("position",), by_place
            else:
                yield f"vllm:spec_decode_{name}", text, (), {(): counts}
        for figure, (name, text) in TRANSFERS.items() if self._transfers else ():
            yield name, text, (), {(): getattr(self._transfers, figure)}
        if self._loads:
            numbers = {
                (str(layer), str(expert)): number
                for layer, experts in self._loads.items()
                for expert, number in enumerate(experts)
            }
            text = "How often tokens have chosen an expert."
            yield "mini_vllm:expert_tokens", text, ("layer", "expert"), numbers
