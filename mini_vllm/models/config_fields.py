"""What the fields of config.json and generation_config.json may hold.

Both files are data from strangers. A value out of range is refused here by the name of its field,
before transformers builds lists as long as the file says. A field that changes what transformers
computes, and that mini_vllm does not implement, is refused as well: a checkpoint gives the tokens
of transformers, or none. Fields that transformers ignores are ignored.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from mini_vllm.errors import (
    CorruptCheckpointError,
    InvalidParameterError,
    Rule,
    UnsupportedModelError,
    integer,
    is_int,
    is_number,
    shown,
)
from mini_vllm.params import SamplingParams


class HFConfig(Protocol):
    """A config.json as it is read: transformers' PretrainedConfig, or its plain fields.

    Any other may be absent.
    """

    architectures: list[str] | None
    attention_bias: bool
    attention_chunk_size: int | None
    attention_multiplier: float
    dtype: Any
    embedding_multiplier: float
    hidden_size: int
    intermediate_size: int
    layer_types: list[str]
    logits_scaling: float
    max_position_embeddings: int
    mlp_bias: bool
    model_type: str
    no_rope_layers: list[int]
    query_pre_attn_scalar: float
    num_attention_heads: int
    num_hidden_layers: int
    num_key_value_heads: int
    residual_multiplier: float
    rms_norm_eps: float
    tie_word_embeddings: bool
    vocab_size: int


MODELS: Mapping[str, str] = {
    "llama": "mini_vllm.models.llama:LlamaForCausalLM",
    "mistral": "mini_vllm.models.mistral:MistralForCausalLM",
    "qwen2": "mini_vllm.models.qwen2:Qwen2ForCausalLM",
    "qwen3": "mini_vllm.models.qwen3:Qwen3ForCausalLM",
    "ministral": "mini_vllm.models.mistral:MinistralForCausalLM",
    "smollm3": "mini_vllm.models.smollm3:SmolLM3ForCausalLM",
    "granite": "mini_vllm.models.granite:GraniteForCausalLM",
    "phi3": "mini_vllm.models.phi3:Phi3ForCausalLM",
    "mixtral": "mini_vllm.models.moe.mixtral:MixtralForCausalLM",
    "qwen3_moe": "mini_vllm.models.moe.qwen3_moe:Qwen3MoeForCausalLM",
    "olmoe": "mini_vllm.models.moe.olmoe:OlmoeForCausalLM",
    "gpt_oss": "mini_vllm.models.gpt_oss.model:GptOssForCausalLM",
    "llama4_text": "mini_vllm.models.llama4.model:Llama4ForCausalLM",
    "gemma3_text": "mini_vllm.models.hybrid.gemma3:Gemma3ForCausalLM",
}
"""By the model_type of a config.json, which transformers goes by: module and class, imported when
it is loaded.

The class has the name that config.json gives the architecture."""


def list_of(holds: Callable[[Any], bool], what: str) -> Rule:
    """A list, all of whose entries pass the test."""
    return Rule(
        lambda value: isinstance(value, list) and all(map(holds, value)), f"a list of {what}"
    )


def is_token_id(value: object) -> bool:
    """Whether value can stand for a token: -1, for one that never comes, is common."""
    return is_int(value, -1, 1 << 31)


def is_id2label(value: object) -> bool:
    """Whether value is an object whose names are numbers, which transformers reads for every
    model.
    """
    return isinstance(value, dict) and all(name.isdecimal() for name in value)


BOOL = Rule(lambda value: isinstance(value, bool), "true or false")
OBJECT = Rule(lambda value: isinstance(value, dict), "an object")
STRING = Rule(lambda value: isinstance(value, str), "a string")
TOKEN_IDS = Rule(
    lambda value: is_token_id(value) or (isinstance(value, list) and all(map(is_token_id, value))),
    "a token id or a list of them",
).or_none("null")
# that float32 can invert
POSITIVE = Rule(lambda value: is_number(value, 1e-30, 1e30), "a number in [1e-30, 1e30]")
SHARE = Rule(lambda value: is_number(value, 0, 1), "a number in [0, 1]")

VALUES: Mapping[str, Rule] = {
    "architectures": list_of(lambda value: isinstance(value, str), "strings").or_none("null"),
    "vocab_size": integer(1, 1 << 24),
    "hidden_size": integer(1, 1 << 20),
    "intermediate_size": integer(1, 1 << 22),
    "num_hidden_layers": integer(1, 10_000),
    "num_attention_heads": integer(1, 1 << 14),
    "num_key_value_heads": integer(1, 1 << 14).or_none("null"),
    "head_dim": integer(1, 1 << 14).or_none("null"),
    "max_position_embeddings": integer(1, 1 << 30),
    "rms_norm_eps": SHARE,
    "hidden_act": STRING,
    "attention_bias": BOOL,
    "mlp_bias": BOOL,
    "tie_word_embeddings": BOOL,
    "use_sliding_window": BOOL,
    # with 1, the cache of transformers keeps all
    "sliding_window": Rule(
        lambda value: value != 1 and is_int(value, 0, 1 << 30), "0 or an integer in [2, 1073741824]"
    ).or_none("null"),
    "max_window_layers": integer(0, 1 << 30),
    "attention_chunk_size": integer(1, 1 << 30).or_none("null"),
    "layer_types": list_of(lambda value: isinstance(value, str), "strings").or_none("null"),
    "no_rope_layers": list_of(lambda value: is_int(value, 0, 1), "0 and 1").or_none("null"),
    **dict.fromkeys(
        ("attention_multiplier", "embedding_multiplier", "logits_scaling", "residual_multiplier"),
        POSITIVE,
    ),
    "rope_parameters": OBJECT.or_none("null"),
    "rope_scaling": OBJECT.or_none("null"),
    "quantization_config": OBJECT.or_none("null"),
    "eos_token_id": TOKEN_IDS,
    "id2label": Rule(is_id2label, "an object with numbers for names").or_none("null"),
    "num_labels": integer(0, 10_000),  # transformers makes a name for each
}
"""Fields of config.json that the models read, or that transformers does."""

ROPE_VALUES: Mapping[str, Rule] = {
    **dict.fromkeys(("rope_theta", "factor", "low_freq_factor", "high_freq_factor"), POSITIVE),
    **dict.fromkeys(("short_factor", "long_factor"), list_of(POSITIVE.holds, "positive numbers")),
    **dict.fromkeys(
        ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"),
        POSITIVE.or_none("null"),
    ),
    "partial_rotary_factor": SHARE,
    "truncate": BOOL,
    "original_max_position_embeddings": integer(1, 1 << 30),
}
"""Parameters of the rotary embedding: what is in rope_parameters, or in rope_scaling of older
files.
"""

ONLY: Mapping[str, tuple[object, ...]] = {
    "hidden_act": ("silu",),
    "is_causal": (True,),
    "is_encoder_decoder": (False,),
    **dict.fromkeys(("dtype", "torch_dtype"), (None, "float32", "bfloat16", "float16")),
    **dict.fromkeys(
        "compression_config fusion_config transformers_weights text_config decoder generator "
        "text_encoder per_layer_config attention_chunk_size kv_sharing_modes".split(),
        (None,),
    ),
}
"""Fields of config.json that change what transformers computes, and the values that mini_vllm
implements.
"""

SAMPLING_FIELDS: Mapping[str, str] = {
    **{name: name for name in ("temperature", "top_p", "top_k", "min_p", "skip_special_tokens")},
    **{f"{kind}_penalty": f"{kind}_penalty" for kind in ("repetition", "presence", "frequency")},
    "max_new_tokens": "max_tokens",
}
"""Fields of generation_config.json that are read, as vLLM reads them, and what SamplingParams calls
them (ModelConfig.get_diff_sampling_param).
"""


NOT_APPLIED: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys(("num_beams", "typical_p", "guidance_scale"), (None, 1)),
    **dict.fromkeys(
        "no_repeat_ngram_size epsilon_cutoff eta_cutoff min_length min_new_tokens".split(),
        (None, 0),
    ),
    **dict.fromkeys(
        "bad_words_ids sequence_bias suppress_tokens begin_suppress_tokens forced_bos_token_id "
        "forced_eos_token_id stop_strings penalty_alpha".split(),
        (None,),
    ),
}
"""Fields of generation_config.json that change the tokens of transformers, unless they have these
values, and that vLLM does not read."""

logger = logging.getLogger("mini_vllm")


def check_config(file: Path, raw: Mapping[str, Any]) -> None:
    """Errors: CorruptCheckpointError for a value out of range, UnsupportedModelError for what is
    not implemented.
    """
    model_type = raw.get("model_type")
    if not isinstance(model_type, str) or model_type not in MODELS:
        raise UnsupportedModelError(
            f"{file}: model_type {shown(model_type)} is unknown; supported: {', '.join(MODELS)}"
        )
    check_values(file, raw, VALUES)
    for field in ("rope_parameters", "rope_scaling"):
        check_values(file, raw.get(field) or {}, ROPE_VALUES)
    only = {field: allowed for field, allowed in ONLY.items() if field in raw}
    if model_type == "llama4_text":
        only.pop("attention_chunk_size", None)
    # transformers keeps one, and attends to everything
    if model_type in ("llama", "granite", "olmoe"):
        only["sliding_window"] = (None, 0)
    check_only(f"{file}: model_type {model_type!r}", raw, only)


def check_generation_config(file: Path, raw: Mapping[str, Any]) -> None:
    """Say which fields are not applied.

    Errors: CorruptCheckpointError naming the field from which no SamplingParams, or no end of a
    text, can be had.
    """
    check_values(file, raw, {"eos_token_id": TOKEN_IDS, "do_sample": BOOL.or_none("null")})
    for field, name in SAMPLING_FIELDS.items():
        try:
            SamplingParams(**({name: raw[field]} if raw.get(field) is not None else {}))
        except InvalidParameterError as error:
            raise CorruptCheckpointError(
                f"{file}: {field} {shown(raw[field])} is refused: {shown(str(error))}"
            ) from error
    for field, neutral in NOT_APPLIED.items():
        if raw.get(field) not in neutral:
            logger.warning("%s: %s %s is not applied", file, field, shown(raw[field]))


def check_only(
    place: str, raw: Mapping[str, object], only: Mapping[str, tuple[object, ...]]
) -> None:
    """Errors: UnsupportedModelError naming place, field, value and what is supported.

    An absent field is null.
    """
    for field, allowed in only.items():
        value = raw.get(field)
        if (type(value), value) not in [(type(each), each) for each in allowed]:
            names = ", ".join(map(repr, allowed))
            raise UnsupportedModelError(
                f"{place}: {field} {shown(value)} is not supported, only {names}"
            )


def check_values(file: Path, raw: Mapping[str, object], rules: Mapping[str, Rule]) -> None:
    """Errors: CorruptCheckpointError naming file, field, value and what is allowed.

    Absent fields are no error.
    """
    for field, rule in rules.items():
        if field in raw and not rule.holds(raw[field]):
            raise CorruptCheckpointError(
                f"{file}: {field} is {shown(raw[field])}, allowed is {rule.allowed}"
            )
