"""EngineConfig: everything that can be set on an engine, in one frozen, validated dataclass.

No torch here, so that a command line or a server can check a configuration before it loads
anything. Source: EngineArgs in vllm/engine/arg_utils.py; many names are vLLM's.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from mini_vllm.block_hash import HASH_FUNCTIONS
from mini_vllm.errors import BOOL, SHARE, Params, Rule, integer, is_number, one_of
from mini_vllm.offload.cost import PreemptionCost
from mini_vllm.policies.registry import PREEMPTION_MODES, SCHEDULERS
from mini_vllm.spec_decode import MATCHES, SPECULATIVE
from mini_vllm.structured import BACKENDS

MOST = (1 << 31) - 1  # of tokens, blocks and requests


NAME = Rule(lambda value: isinstance(value, str) and value != "", "a name or a folder")
RULES: Mapping[str, Rule] = {
    "model": NAME,
    "device": Rule(
        lambda value: (
            isinstance(value, str)
            and re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,3})?", value) is not None
        ),
        "'auto', 'cpu', 'cuda' or 'cuda:N'",
    ),
    "dtype": one_of(("auto", "float32", "bfloat16", "float16")),
    "quantization": one_of((None, "int8")),
    "hash_function": one_of(tuple(HASH_FUNCTIONS)),
    "scheduler": one_of(tuple(SCHEDULERS)),
    "preemption_mode": one_of(PREEMPTION_MODES),
    "structured_outputs_backend": one_of(BACKENDS),
    "speculative": one_of((None, *SPECULATIVE)),
    "cudagraph_mode": one_of(
        (None, *"none piecewise full full_decode_only full_and_piecewise".split())
    ),
    "tool_call_parser": one_of(
        tuple("auto deepseek_v3 hermes llama3_json mistral none pythonic qwen3_coder xlam".split())
    ),
    "reasoning_parser": one_of(("auto", "think", "none")),
    "attention_backend": NAME,
    "async_scheduling": BOOL.or_none(),
    "expert_loads": NAME.or_none(),
    "num_redundant_experts": integer(0, MOST),
    "num_kv_blocks": integer(2, MOST).or_none(),
    **dict.fromkeys(
        "kv_cache_memory_bytes kv_offload_bytes kv_offload_disk_bytes".split(),
        integer(1, (1 << 63) - 1).or_none(),
    ),
    "kv_offload_path": NAME.or_none(),
    "max_model_len": integer(1, MOST).or_none(),
    "num_cpu_blocks": integer(0, MOST).or_none(),
    **dict.fromkeys(
        "block_size tensor_parallel_size max_num_seqs max_num_batched_tokens "
        "num_speculative_tokens prompt_lookup_min".split(),
        integer(1, MOST),
    ),
    "long_prefill_token_threshold": integer(0, MOST),
    "prompt_lookup_match": one_of(MATCHES),
    "gpu_memory_utilization": SHARE,
    "policy": Rule(one_of(("fcfs", "priority")).holds, "'fcfs' or 'priority'"),
    "nano_vllm": one_of(("first", "newest")),
    "watermark": Rule(lambda value: is_number(value, 0, 1) and value < 1, "in [0, 1)"),
    **dict.fromkeys(
        "preemption_cost kv_transfer_config kv_events_config".split(),
        Rule(
            lambda value: (
                isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
            ),
            "values by name",
        ).or_none(),
    ),
    "seed": integer(-(1 << 63), (1 << 64) - 1),
}
"""What an option may be, whatever the other ones are."""


@dataclass(frozen=True, slots=True)
class EngineConfig(Params):
    """The options of an engine; None means: what the model and the memory allow.

    Raises InvalidParameterError naming the value and its limit, UnknownParameterError for an
    unknown keyword.
    """

    model: str
    """ "tiny" (bundled), a folder (a Path will do), or a hub name."""
    device: str = "auto"
    """ "auto" (cuda if there is one), "cpu", "cuda" or "cuda:1"."""
    tensor_parallel_size: int = 1
    """Processes, of which each holds a part of every layer."""
    enable_expert_parallel: bool = False
    """Give each of these processes some of the experts whole, in place of a part of every one."""
    expert_loads: str | None = None
    """A file with the tokens that each expert got. The experts are placed by it, and at its end the
    engine writes it; None: the experts are spread evenly.
    """
    num_redundant_experts: int = 0
    """Copies of the experts that get most tokens, over all processes, in each layer."""
    dtype: str = "auto"
    """ "auto" is the checkpoint's own."""
    quantization: str | None = None
    """ "int8" stores the weights of linear layers as integers with a scale for each output channel,
     made at load.
    """
    block_size: int = 16
    """Tokens per KV block."""
    num_kv_blocks: int | None = None
    """Size of the KV cache in blocks, the null block included; None: sized from the memory
    budget.
    """
    kv_cache_memory_bytes: int | None = None
    """The memory budget of the KV cache itself; None: see gpu_memory_utilization."""
    gpu_memory_utilization: float = 0.9
    """The share of the device's memory for weights, activations and KV cache together (of free
    memory on a CPU).
    """
    max_model_len: int | None = None
    """Most tokens of a request, prompt and output."""
    max_num_seqs: int = 256
    """Most requests running at once."""
    max_num_batched_tokens: int = 2048
    """The token budget of one step."""
    long_prefill_token_threshold: int = 0
    """Most tokens of one request in one step while it is not alone; 0 is no limit."""
    enable_chunked_prefill: bool = True
    enable_prefix_caching: bool = True
    prefix_cache_retention_interval: int | None = 0
    """For layers with a window: which blocks of it stay to be found again. 0: those at the end of a
    prompt; n: also those at each multiple of n tokens; None: all.
    """
    hash_function: str = "exact"
    """ "exact" (compares tokens) or "sha256" (for many tenants, persistence)."""
    reserve_full_sequence: bool = True
    """Admit a request only when all of its known tokens fit at once."""
    watermark: float = 0.0
    """The share of the blocks that admission leaves free."""
    policy: str = "fcfs"
    """ "fcfs" or "priority"."""
    scheduler: str = "v1"
    """Which of the family (mini_vllm/policies)."""
    block_aligned_chunks: bool = False
    """Let inner chunks of a prompt end at the edge of a block."""
    charge_cached_tokens: bool = False
    """Let the budget of prefill_first pay for cached tokens, too, as the first MinivLLM did."""
    nano_vllm: str = "newest"
    """Which nano-vllm the scheduler of that name is: "first" or "newest"."""
    cache_quotas: Mapping[str, int] | None = None
    """For tenants: by name, the most blocks that one may have cached."""
    cache_watermark: float = 0.85
    """For tenants: the share of the blocks above which cold cached ones are trimmed between
    steps.
    """
    preemption_mode: str = "recompute"
    """ "recompute", "swap" (blocks go to main memory and come back) or "cheaper" (of the two, by a
     cost model).
    """
    num_cpu_blocks: int | None = None
    """Blocks of main memory to swap to; None: as many as the KV cache has, at most 4 GiB, where the
    scheduler swaps.
    """
    preemption_cost: Mapping[str, float] | None = None
    """Figures of PreemptionCost by name, for "cheaper"; None: measured when the engine starts."""
    kv_offload_bytes: int | None = None
    """Bytes of main memory in which the prefix cache goes on; None: it ends with the device."""
    kv_offload_path: str | None = None
    """A folder in which it goes on behind main memory, and outlives the process."""
    kv_offload_policy: str = "lru"
    """What main memory lets go of first: "lru", or "arc", which favours what is used again."""
    kv_offload_disk_bytes: int | None = None
    """Most bytes of blocks in that folder; None: half of what is left there at the start."""
    kv_transfer_config: Any = field(default=None, repr=False)  # it may have a key
    """The options of KVTransferConfig (offload/remote) by name: this engine computes prompts for
    another one, or decodes what another one has computed; None: it does both itself.
    """
    kv_events_config: Any = None
    """The options of KVEventsConfig (engine/outside) by name: what is cached is published."""
    async_scheduling: bool | None = None
    """Decide a step while the one before it computes, as vLLM does; None: on a GPU, where it can
    be.
    """
    cudagraph_mode: str | None = None
    """Which steps are recorded once and replayed: "full_decode_only" those of decodes alone,
    "piecewise" all but their attention, "full_and_piecewise" both; "full" every step whole, where
    the back end can. On a CPU a list of closures stands in for the graph. None:
    "full_and_piecewise" on a GPU, "none" on a CPU.
    """
    speculative: str | None = None
    """Where drafts come from: "ngram", "suffix" or "draft_model"; None: there are none."""
    num_speculative_tokens: int = 4
    """Most drafts of a request in one step."""
    prompt_lookup_min: int = 2
    """ "ngram" looks for at least so many of the last tokens."""
    prompt_lookup_max: int = 5
    """ "ngram" and "suffix" look for at most so many."""
    prompt_lookup_match: str = "first"
    """Which of several places "ngram" takes: "first", as vLLM's first model runner, or "last", as
    its second one.
    """
    draft_model: str | None = None
    """For "draft_model": a folder, or a hub name; None: the bundled model's own. "self": the model
    decodes freely, and its tokens are verified in one shape, so that they are the same whatever
    else is in the batch.
    """
    enforce_eager: bool = True
    """Run the model operator by operator; False compiles what lies between attentions when the
    engine starts.
    """
    batch_invariant: bool = False
    """Give a request the same bits whatever else is in its batch."""
    attention_backend: str = "auto"
    structured_outputs_backend: str = "auto"
    """What compiles grammars: "xgrammar", "guidance", or "auto", the first of these that takes one
    exactly.
    """
    tool_call_parser: str = "auto"
    """The form in which a chat calls tools: "hermes", "llama3_json", "none", or "auto", what the
    model shows.
    """
    reasoning_parser: str = "auto"
    """ "think": a chat begins with <think>...</think>, which is no content; "none", or "auto", what
     the model shows.
    """
    sanitize_control_tokens: bool = False
    """Read the names of control tokens, such as <|im_end|>, as text in what a chat is given."""
    seed: int = 0
    """From which requests without a seed get theirs: the same run twice gives the same tokens."""

    def __post_init__(self) -> None:
        self.normalise()
        for name in "model kv_offload_path expert_loads".split():
            if isinstance(path := getattr(self, name), os.PathLike):
                self.store({name: os.fspath(path)})
        self.check(RULES)
        self.check({field.name: BOOL for field in fields(self) if field.type is bool})
        self.require(
            "enable_expert_parallel",
            self.tensor_parallel_size > 1
            if self.enable_expert_parallel
            else not (self.expert_loads or self.num_redundant_experts),
            "False with tensor_parallel_size 1, and True for expert_loads or num_redundant_experts",
        )
        self.check({"prompt_lookup_max": integer(self.prompt_lookup_min, MOST)})
        needs_model = self.speculative == "draft_model"
        if needs_model and self.draft_model is None and self.model == "tiny":
            object.__setattr__(self, "draft_model", "tiny-draft")
        self.require(
            "draft_model",
            isinstance(self.draft_model, str) == needs_model,
            "a name for draft_model only",
        )
        cost = self.preemption_cost
        PreemptionCost(**(cost or {}))
        object.__setattr__(self, "preemption_cost", cost and dict(cost))
        self.require(
            "kv_cache_memory_bytes",
            None in (self.kv_cache_memory_bytes, self.num_kv_blocks),
            "None beside num_kv_blocks",
        )
