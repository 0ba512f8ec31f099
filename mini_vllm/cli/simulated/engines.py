"""The options of simulate that say what serves the arrivals."""

from dataclasses import dataclass
from typing import Any

from mini_vllm import __version__
from mini_vllm.cli.common import option
from mini_vllm.simulator.calibration import BUNDLED, engine_config
from mini_vllm.simulator.fleet import ROUTINGS, policy_names
from mini_vllm.simulator.metrics import QuantileSketch
from mini_vllm.simulator.routing import (
    BALANCE_ABS_THRESHOLD,
    BALANCE_REL_THRESHOLD,
    CACHE_THRESHOLD,
)
from mini_vllm.simulator.step_time import StepTimeModel

ROUTING_HELP = (
    f"{', '.join(ROUTINGS)}. prefix_aware: to the replica with the longest cached prefix, if it is "
    "more than "
    f"{CACHE_THRESHOLD:.0%} of the prompt. To the least loaded one, as SGLang's router does, when "
    "the busiest has more "
    f"than {BALANCE_ABS_THRESHOLD} requests more than the idlest, and {BALANCE_REL_THRESHOLD:g} "
    "times as many. A "
    "replica that has served no request yet is used before a busy one."
)
ACCEPTANCE_HELP = (
    "Simulate drafts, too, each right with this probability if those before it are: beside every "
    "scheduler that is "
    "named, or beside v1. To make drafts takes no time."
)


@dataclass(frozen=True, kw_only=True)
class Engines:
    """The options that say what serves them. What is None is the calibration's."""

    scheduler: str = option("all", f"all, or some of {','.join(policy_names())}.")
    calibration: str = option(BUNDLED[0], f"A file of calibrate, or {', '.join(BUNDLED)}.")
    block_size: int | None = option(None, "By default the calibration's, as all below.", min=1)
    num_kv_blocks: int | None = option(None, "KV blocks, the null block included.", min=2)
    max_model_len: int | None = option(None, "Most tokens of a request.", min=1)
    max_num_seqs: int | None = option(None, "Most requests running at once.", min=1)
    max_num_batched_tokens: int | None = option(None, "The token budget of one step.", min=1)
    no_prefix_caching: bool = option(False, "Share no blocks.", "--no-prefix-caching")
    acceptance: float | None = option(None, ACCEPTANCE_HELP)
    num_speculative_tokens: int | None = option(None, "Of --acceptance, 4.", min=1, max=999)
    slo_ttft: float = option(2.0, "Seconds to the first token of a good request.")
    slo_itl: float = option(0.1, "Seconds between two tokens of a good request.")
    replicas: int = option(1, "How many engines.", min=1)
    routing: str = option("round_robin", ROUTING_HELP)

    def config(self, model: StepTimeModel) -> dict[str, Any]:
        """One engine of the calibration, with what is given in its place.

        Raises InvalidParameterError.
        """
        given = {
            "block_size": self.block_size,
            "num_blocks": self.num_kv_blocks,
            "max_model_len": self.max_model_len,
            "max_num_seqs": self.max_num_seqs,
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "enable_prefix_caching": not self.no_prefix_caching,
        }
        return engine_config(model, given)

    def drafts(self) -> dict[str, Any]:
        """Whether and how drafts are simulated."""
        return {
            "acceptance": self.acceptance,
            "num_speculative_tokens": self.num_speculative_tokens,
        }

    def about(self, model: StepTimeModel) -> dict[str, Any]:
        """What the report says of them."""
        origin = {name: model.about.get(name) for name in ("kind", "model", "machine")}
        return {
            "steps": {"calibration": self.calibration, **origin},
            "engine": {
                "version": __version__,
                **self.config(model),
                **self.drafts(),
                "replicas": self.replicas,
                "routing": self.routing,
            },
            "slo": {"ttft": self.slo_ttft, "itl": self.slo_itl},
            "quantile_error": QuantileSketch.RELATIVE_ERROR,
        }
