"""How large the KV cache may be: a memory budget turned into blocks and a max_model_len.

    budget = share of the device - weights - activations      blocks = budget / bytes per block

Called once by the engine, which says the result. Source: determine_available_memory in vllm/v1/worker/gpu_worker.py
and get_kv_cache_configs in vllm/v1/core/kv_cache_utils.py; vLLM measures the activations, here they are estimated.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mini_vllm.config import EngineConfig
from mini_vllm.errors import InvalidParameterError, KVCacheTooSmallError
from mini_vllm.models import DecoderModel
from mini_vllm.policies import get_scheduler_cls, options_of

MAX_CPU_KV_CACHE_BYTES = 4 << 30  # what vLLM's CPU back end takes by default; main memory is shared with others
SWAP_SPACE_BYTES = 4 << 30  # vLLM V0's default (swap_space); no more than the KV cache itself


@dataclass(frozen=True, slots=True)
class KVCachePlan:
    """Block 0 is the null block, so num_blocks - 1 hold tokens. max_model_len in tokens, bytes_per_block in bytes."""

    num_blocks: int
    block_size: int
    max_model_len: int
    bytes_per_block: int
    num_cpu_blocks: int = 0
    """Blocks of main memory to swap to; 0 where the scheduler never swaps."""

    @property
    def num_slots(self) -> int:
        return (self.num_blocks - 1) * self.block_size

    def __str__(self) -> str:
        mib = self.num_blocks * self.bytes_per_block / (1 << 20)
        return (
            f"KV cache: {self.num_blocks - 1:,} blocks x {self.block_size} tokens = {self.num_slots:,} tokens "
            f"({mib:,.1f} MiB); max_model_len {self.max_model_len:,}: "
            f"room for {self.num_slots / self.max_model_len:.1f} requests of that length"
            + (f"; {self.num_cpu_blocks:,} blocks to swap to" if self.num_cpu_blocks else "")
        )


def bytes_per_block(model: DecoderModel, block_size: int, dtype: torch.dtype) -> int:
    """K and V of block_size tokens in every layer."""
    return 2 * model.num_layers * block_size * model.num_kv_heads * model.head_dim * dtype.itemsize


def plan_kv_cache(
    config: EngineConfig, model: DecoderModel, hf_config: Any, dtype: torch.dtype, device: torch.device
) -> KVCachePlan:
    """Size the KV cache after the weights are loaded.

    Raises InvalidParameterError for a max_model_len beyond the model's, KVCacheTooSmallError for a budget of less than
    2 blocks.
    """
    model_limit = int(hf_config.max_position_embeddings)
    max_model_len = config.max_model_len or model_limit
    if max_model_len > model_limit:
        raise InvalidParameterError(f"max_model_len {max_model_len} exceeds the model's {model_limit} positions")
    per_block = bytes_per_block(model, config.block_size, dtype)
    if config.num_kv_blocks is not None:
        num_blocks = config.num_kv_blocks
    else:
        budget = config.kv_cache_memory_bytes or _memory_budget(config, hf_config, dtype, device)
        most_useful = config.max_num_seqs * -(-max_model_len // config.block_size) + 1
        num_blocks = min(budget // per_block, most_useful)
        if num_blocks < 2:
            raise KVCacheTooSmallError(
                f"a KV cache of {max(budget, 0):,} bytes holds {max(num_blocks, 0)} blocks of {per_block:,} bytes, at "
                f"least 2 are needed; raise gpu_memory_utilization ({config.gpu_memory_utilization}) or "
                "kv_cache_memory_bytes"
            )
    max_model_len = min(max_model_len, (num_blocks - 1) * config.block_size)
    num_cpu_blocks = config.num_cpu_blocks
    if num_cpu_blocks is None:
        num_cpu_blocks = min(num_blocks - 1, SWAP_SPACE_BYTES // per_block) if may_swap(config) else 0
    return KVCachePlan(num_blocks, config.block_size, max_model_len, per_block, num_cpu_blocks)


def may_swap(config: EngineConfig) -> bool:
    """Whether the scheduler of this config has a use for blocks in main memory."""
    return "num_cpu_blocks" in options_of(get_scheduler_cls(config.scheduler, config.preemption_mode))


def _memory_budget(config: EngineConfig, hf_config: Any, dtype: torch.dtype, device: torch.device) -> int:
    """Bytes left for the KV cache. On a CPU at most MAX_CPU_KV_CACHE_BYTES of the memory that is free."""
    activations = _activation_bytes(config, hf_config, dtype)
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return int(total * config.gpu_memory_utilization) - (total - free) - activations
    return min(int(available_host_memory() * config.gpu_memory_utilization) - activations, MAX_CPU_KV_CACHE_BYTES)


def available_host_memory() -> int:
    """Bytes of main memory that can be had without swapping; where the system does not say, the cap of the budget."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 2 * MAX_CPU_KV_CACHE_BYTES


def _activation_bytes(config: EngineConfig, hf_config: Any, dtype: torch.dtype) -> int:
    """Peak of one step, estimated: the widest layer's tensors for every token, and the logits in float32, twice."""
    heads = hf_config.num_attention_heads + 2 * hf_config.num_key_value_heads
    head_dim = getattr(hf_config, "head_dim", None) or hf_config.hidden_size // hf_config.num_attention_heads
    per_token = int(4 * hf_config.hidden_size + 3 * hf_config.intermediate_size + 2 * heads * head_dim)
    layer = config.max_num_batched_tokens * per_token * dtype.itemsize
    return layer + 2 * 4 * config.max_num_seqs * int(hf_config.vocab_size)
