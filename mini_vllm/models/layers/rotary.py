"""Rotary position embedding (Su et al. 2021): a head's channels are pairs, and each pair turns with
the position.

Channel c is paired with c + head_dim / 2 (the half-rotation layout of the Hugging Face
checkpoints). Pair c turns by position * inv_freq[c], so a dot product of query and key depends only
on how far apart they are.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mini_vllm.attention import Rotation
from mini_vllm.errors import UnsupportedModelError, shown
from mini_vllm.models.config_fields import ROPE_VALUES, HFConfig

SUPPORTED_ROPE_TYPES = ("default", "llama3", "linear", "dynamic", "yarn", "longrope")
LLAMA3_NUMBERS = (
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
)


class RotaryEmbedding:
    """Angles from positions.

    They are computed once a step for its T tokens, so no table bounds the model's length.
    """

    def __init__(self, hf_config: HFConfig, head_dim: int, device: torch.device) -> None:
        if head_dim % 2:
            raise UnsupportedModelError(
                f"head_dim {head_dim} is odd; rotary embedding needs pairs of channels"
            )
        parameters = rope_parameters(hf_config)
        inv_freq = 1.0 / (
            parameters["rope_theta"]
            ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
        )
        self.attention_factor = 1.0  # of cosine and sine, so of the scores its square
        if parameters["rope_type"] == "llama3":
            inv_freq = scale_llama3(inv_freq, parameters)
        elif parameters["rope_type"] != "default":
            inv_freq, self.attention_factor = scale_as_transformers(hf_config, parameters)
        self.inv_freq = inv_freq.to(device)  # [head_dim / 2] float32

    def __call__(self, positions: Tensor, dtype: torch.dtype) -> Rotation:
        """The rotation of tokens at positions [T]; angles in float32, then rounded to dtype."""
        angles = positions[:, None, None].float() * self.inv_freq
        cos = (angles.cos() * self.attention_factor).to(dtype)
        sin = (angles.sin() * self.attention_factor).to(dtype)
        return Rotation(torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1))


def rope_parameters(hf_config: HFConfig) -> dict[str, Any]:
    """The configuration's rope_parameters, or what older ones say with rope_theta and rope_scaling;
    checked.

    Errors: UnsupportedModelError for a rope_type other than SUPPORTED_ROPE_TYPES, rotation of part
    of a head, and numbers from which no angles come.
    """
    scaling = (
        getattr(hf_config, "rope_parameters", None)
        or getattr(hf_config, "rope_scaling", None)
        or {}
    )
    rope_type = scaling.get("rope_type", scaling.get("type", "default"))
    if any(isinstance(value, Mapping) for value in scaling.values()):
        raise UnsupportedModelError(
            f"rope_parameters {shown(scaling)} per layer type are not supported"
        )
    if rope_type not in SUPPORTED_ROPE_TYPES:
        raise UnsupportedModelError(
            f"rope_type {shown(rope_type)} is not one of: {', '.join(SUPPORTED_ROPE_TYPES)}"
        )
    if (fraction := scaling.get("partial_rotary_factor", 1.0)) != 1.0:
        raise UnsupportedModelError(
            f"partial_rotary_factor {shown(fraction)} is not supported, only 1.0"
        )
    original = scaling.get("original_max_position_embeddings", hf_config.max_position_embeddings)
    # transformers has it win
    original = getattr(hf_config, "original_max_position_embeddings", original)
    theta = scaling.get("rope_theta", getattr(hf_config, "rope_theta", 10_000.0))
    parameters = {
        **scaling,
        "rope_theta": theta,
        "rope_type": rope_type,
        "original_max_position_embeddings": original,
    }
    for name in ("rope_theta", *(LLAMA3_NUMBERS if rope_type == "llama3" else ())):
        if not ROPE_VALUES[name].holds(parameters.get(name)):
            value, allowed = shown(parameters.get(name)), ROPE_VALUES[name].allowed
            raise UnsupportedModelError(f"rope_parameters: {name} is {value}, allowed is {allowed}")
    if rope_type == "llama3" and parameters["low_freq_factor"] >= parameters["high_freq_factor"]:
        raise UnsupportedModelError(
            f"rope_parameters {shown(parameters)}: low_freq_factor reaches high_freq_factor"
        )
    return parameters


def scale_as_transformers(
    hf_config: HFConfig, parameters: Mapping[str, Any]
) -> tuple[Tensor, float]:
    """The frequencies [head_dim / 2] of the other ways to stretch the context, and what cosine and
    sine are multiplied by.

    "linear" makes every pair slower. "yarn" (Peng et al. 2023) makes the slow ones slower, as
    llama3 does, and raises the scores. "longrope" (Ding et al. 2024) has a factor for each pair.
    "dynamic" changes nothing before max_position_embeddings, where a request ends. Errors:
    UnsupportedModelError for parameters that transformers cannot compute with.
    """
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    try:
        inv_freq, attention_factor = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](hf_config)
    except Exception as error:  # it checks nothing, so a missing number may be any kind
        raise UnsupportedModelError(
            f"rope_parameters {shown(parameters)}: {shown(str(error))}"
        ) from error
    return inv_freq, attention_factor


def scale_llama3(inv_freq: Tensor, parameters: Mapping[str, float]) -> Tensor:
    """Llama 3.1's stretching of the context: slow pairs turn `factor` times slower, fast ones stay,
    between is blended.

    A pair is fast when it turns more than high_freq_factor times within the original context, slow
    when it turns fewer than low_freq_factor times (transformers: rope_type "llama3").
    """
    low, high = parameters["low_freq_factor"], parameters["high_freq_factor"]
    turns = parameters["original_max_position_embeddings"] / (2 * math.pi / inv_freq)
    keep: Tensor = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    scaled: Tensor = keep * inv_freq + (1 - keep) * inv_freq / parameters["factor"]
    return scaled
