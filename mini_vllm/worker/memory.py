"""How large the KV cache may be: a memory budget turned into blocks and a max_model_len.

    budget = share of the device - weights - activations      blocks = budget / bytes per block

Called once by the engine, which says the result. Source: determine_available_memory in
vllm/v1/worker/gpu_worker.py and get_kv_cache_configs in vllm/v1/core/kv_cache_planning.py;
vLLM measures the activations, here they are estimated.
"""

import logging
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mini_vllm.config import EngineConfig
from mini_vllm.errors import (
    InvalidParameterError,
    KVCacheTooLargeError,
    KVCacheTooSmallError,
    shown,
)
from mini_vllm.models.config_fields import HFConfig
from mini_vllm.offload.hybrid.layout import ONE_GROUP, KVCacheLayout

# main memory is shared with other programs
MAX_CPU_KV_CACHE_BYTES = 4 << 30
CONTROL_GROUPS = Path("/sys/fs/cgroup")
SWAP_SPACE_BYTES = 4 << 30  # vLLM V0's default (swap_space); no more than the KV cache itself

logger = logging.getLogger("mini_vllm")


@dataclass(frozen=True, slots=True)
class KVCachePlan:
    """Block 0 is the null block, so num_blocks - 1 hold tokens. max_model_len in tokens,
    bytes_per_block in bytes.
    """

    num_blocks: int
    block_size: int
    max_model_len: int
    bytes_per_block: int
    num_cpu_blocks: int = 0
    """Blocks of main memory to swap to; 0 where the scheduler never swaps."""
    layout: KVCacheLayout = ONE_GROUP
    """Which layers share block tables and memory."""

    def check(self, free_on_device: int, free_on_host: int, *, is_shared: bool) -> None:
        """Raise KVCacheTooLargeError before memory is taken that is not there. All in bytes.

        is_shared: whether the device is the host, so that both pools come out of one memory.
        """
        taken = 0
        for name, num_blocks, free in (
            ("num_kv_blocks", self.num_blocks, free_on_device),
            ("num_cpu_blocks", self.num_cpu_blocks, free_on_host),
        ):
            needed, left = num_blocks * self.bytes_per_block, max(free - taken, 0)
            if needed > left:
                raise KVCacheTooLargeError(
                    f"{name} {num_blocks:,} of {self.bytes_per_block:,} bytes (block_size "
                    f"{self.block_size:,}) need {needed:,} bytes, {left:,} are free: "
                    f"{left // self.bytes_per_block:,} blocks would fit"
                )
            taken += needed * is_shared

    def __str__(self) -> str:
        return (
            f"KV cache: {self.num_blocks - 1:,} blocks x {self.block_size} tokens = "
            f"{(self.num_blocks - 1) * self.block_size:,} tokens "
            f"({self.num_blocks * self.bytes_per_block / (1 << 20):,.1f} MiB); "
            f"max_model_len {self.max_model_len:,}: "
            f"room for {(self.num_blocks - 1) / self.layout.num_blocks(self.max_model_len):.1f} "
            "requests of that length"
            + (f"; {self.num_cpu_blocks:,} blocks to swap to" if self.num_cpu_blocks else "")
            + self.layout.describe(self.max_model_len)
        )


def plan_kv_cache(
    config: EngineConfig,
    hf_config: HFConfig,
    layout: KVCacheLayout,
    available_bytes: Callable[[], int],
    *,
    may_swap: bool = False,
) -> KVCachePlan:
    """Size the KV cache after the weights are loaded. available_bytes is asked only if the config
    sets no size.

    layout: which layers share blocks. may_swap: whether the KV cache manager has a use for blocks
    in main memory.

    Raises InvalidParameterError for a max_model_len beyond the model's, KVCacheTooSmallError for a
    budget of less than 2 blocks.
    """
    own_limit = max_positions(hf_config)
    model_limit = max_positions(for_length(hf_config, config.max_model_len))
    max_model_len = config.max_model_len or model_limit
    if max_model_len > model_limit:
        raise InvalidParameterError(
            f"max_model_len {shown(max_model_len)} exceeds the model's {model_limit} positions"
        )
    if model_limit > own_limit:
        logger.warning(
            "longrope: max_model_len %s gives all requests the long factors; a text of at most %s "
            "tokens gets other tokens than with max_model_len %s",
            shown(config.max_model_len),
            own_limit,
            own_limit,
        )
    per_block = layout.bytes_per_block
    num_blocks = config.num_kv_blocks
    if num_blocks is None:
        budget = config.kv_cache_memory_bytes or available_bytes()
        most_useful = config.max_num_seqs * layout.num_blocks(max_model_len) + 1
        num_blocks = min(budget // per_block, most_useful)
        if num_blocks < 2:
            raise KVCacheTooSmallError(
                f"a KV cache of {max(budget, 0):,} bytes holds {max(num_blocks, 0)} blocks of "
                f"{per_block:,} bytes, at least 2 are needed; raise gpu_memory_utilization "
                f"({config.gpu_memory_utilization}) or kv_cache_memory_bytes"
            )
    max_model_len = min(max_model_len, layout.num_tokens(num_blocks - 1))
    num_cpu_blocks = config.num_cpu_blocks
    if num_cpu_blocks is None:
        num_cpu_blocks = may_swap * min(num_blocks - 1, SWAP_SPACE_BYTES // per_block)
    return KVCachePlan(
        num_blocks, config.block_size, max_model_len, per_block, num_cpu_blocks, layout
    )


def max_positions(hf_config: HFConfig) -> int:
    """Tokens of the longest request whose positions the model can tell.

    With "longrope" a text beyond the original context would get other angles in all of its tokens,
    also in those that are computed already, so it ends there, unless both lists of factors are the
    same. "yarn" stretches the original context by its factor (vLLM: _get_and_verify_max_len).
    """
    limit = hf_config.max_position_embeddings
    scaling = getattr(hf_config, "rope_parameters", None) or {}
    original = scaling.get("original_max_position_embeddings", limit)
    original = getattr(hf_config, "original_max_position_embeddings", original)
    match scaling.get("rope_type"):
        case "longrope" if scaling.get("short_factor", ()) != scaling.get("long_factor"):
            return min(limit, int(original))
        case "yarn":
            return max(limit, int(original * scaling["factor"]))
    return limit


def for_length(hf_config: HFConfig, max_model_len: int | None) -> HFConfig:
    """The configuration of the model for requests of up to so many tokens.

    Where that is more than the original context of "longrope", all requests get the long factors
    (vLLM: Phi3LongRoPEScaledRotaryEmbedding).
    """
    scaling = getattr(hf_config, "rope_parameters", None) or {}
    if scaling.get("rope_type") != "longrope" or (max_model_len or 0) <= max_positions(hf_config):
        return hf_config
    stretched: Any = copy(hf_config)
    stretched.rope_parameters = scaling | {"short_factor": scaling["long_factor"]}
    return stretched  # type: ignore[no-any-return]


def available_host_memory() -> int:
    """Bytes of main memory that can be had without swapping, no more than a container's limit
    leaves; where the system does not say, the cap of the budget.
    """
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return min(int(line.split()[1]) * 1024, left_in_group(CONTROL_GROUPS))
    return 2 * MAX_CPU_KV_CACHE_BYTES


def left_in_group(root: Path) -> int:
    """Bytes that the limit of this process's control group leaves, or of a group around it.

    Linux ends a process that takes more. root: where the groups (version 2) are shown. A container
    sees its own group there. Files that the system keeps in memory give way, so they do not count.
    """
    own = Path("/proc/self/cgroup")
    name = own.read_text().rpartition("::")[2].strip() if own.exists() else ""
    group, left = root / name.strip("/"), 1 << 63
    for each in (group, *group.parents):
        limit = each / "memory.max"
        if limit.exists() and (most := limit.read_text().strip()) != "max":
            stat = dict(line.split() for line in (each / "memory.stat").read_text().splitlines())
            used = int((each / "memory.current").read_text())
            left = min(left, max(0, int(most) - used + int(stat["inactive_file"])))
    return left


def host_bytes(config: EngineConfig, activations: int, weights: int = 0) -> int:
    """Bytes for a KV cache in main memory: of what is free, at most MAX_CPU_KV_CACHE_BYTES.

    weights: bytes of those that are not loaded yet. Each rank has its share.
    """
    size = config.tensor_parallel_size
    free = (available_host_memory() - weights * size) * config.gpu_memory_utilization
    return min(int(free / size) - activations, MAX_CPU_KV_CACHE_BYTES)
