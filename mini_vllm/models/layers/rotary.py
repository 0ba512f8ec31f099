"""Rotary position embedding (Su et al. 2021): a head's channels are pairs, and each pair turns with
the position.

Channel c is paired with c + head_dim / 2 (the half-rotation layout of the Hugging Face
checkpoints). Pair c turns by position * inv_freq[c], so a dot product of query and key depends only
on how far apart they are. Where a part of each head turns, the pairs of the rest have frequency 0.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
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
    channels: the order of a head's channels in which pairs stand head_dim / 2 apart where a part of
    the head turns, which is paired in itself; else None.
    """

    def __init__(self, hf_config: HFConfig, head_dim: int, device: torch.device) -> None:
        parameters = rope_parameters(hf_config)
        dim = int(head_dim * parameters.get("partial_rotary_factor", 1.0))
        if head_dim % 2 or dim % 2:
            raise UnsupportedModelError(
                f"head_dim {head_dim} is odd, or {dim} of it that turn; rotary embedding needs "
                "pairs of channels"
            )
        inv_freq = 1.0 / (
            parameters["rope_theta"] ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)
        )
        factor = 1.0  # of cosine and sine, so of the scores its square
        if parameters["rope_type"] != "default":
            inv_freq, factor = scale_as_transformers(hf_config, parameters)
        # [head_dim / 2] float32, both
        still = (head_dim - dim) // 2
        self.inv_freq = F.pad(inv_freq, (0, still)).to(device)
        self.factors = F.pad(torch.full_like(inv_freq, factor), (0, still), value=1.0).to(device)
        order = torch.arange(head_dim).to(device)  # made there, it would import sympy
        halves = order[:dim].view(2, dim // 2), order[dim:].view(2, still)
        self.channels = torch.cat(halves, 1).flatten() if still else None

    def __call__(self, positions: Tensor, dtype: torch.dtype) -> Rotation:
        """The rotation of tokens at positions [T]; angles in float32, then rounded to dtype."""
        angles = positions[:, None, None].float() * self.inv_freq
        cos = (angles.cos() * self.factors).to(dtype)
        sin = (angles.sin() * self.factors).to(dtype)
        return Rotation(torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1))


def rope_parameters(hf_config: HFConfig) -> dict[str, Any]:
    """The configuration's rope_parameters, or what older ones say with rope_theta and rope_scaling;
    checked.

    Errors: UnsupportedModelError for a rope_type other than SUPPORTED_ROPE_TYPES, rotation of part
    of a head in a model that has none, and numbers from which no angles come.
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
    fraction = scaling.get("partial_rotary_factor", 1.0)
    if fraction != 1.0 and hf_config.model_type != "phi3":  # transformers turns all of the head
        raise UnsupportedModelError(
            f"partial_rotary_factor {shown(fraction)} is not supported, only 1.0"
        )
    theta = scaling.get("rope_theta", getattr(hf_config, "rope_theta", 10_000.0))
    parameters = {**scaling, "rope_theta": theta, "rope_type": rope_type}
    for name in ("rope_theta", *(LLAMA3_NUMBERS if rope_type == "llama3" else ())):
        if not ROPE_VALUES[name].holds(parameters.get(name)):
            value, allowed = shown(parameters.get(name)), ROPE_VALUES[name].allowed
            raise UnsupportedModelError(f"rope_parameters: {name} is {value}, allowed is {allowed}")
    if rope_type == "llama3" and parameters["low_freq_factor"] > parameters["high_freq_factor"]:
        raise UnsupportedModelError(
            f"rope_parameters {shown(parameters)}: low_freq_factor is above high_freq_factor"
        )
    return parameters


def scale_as_transformers(
    hf_config: HFConfig, parameters: Mapping[str, Any]
) -> tuple[Tensor, float]:
    """The frequencies of the pairs that turn where the context is stretched, and what cosine and
    sine are multiplied by.

    "linear" makes every pair `factor` times slower. "llama3" makes those so that turn fewer than
    low_freq_factor times within the original context, leaves those that turn more than
    high_freq_factor times, and blends between. "yarn" (Peng et al. 2023) does nearly the same, and
    raises the scores. "longrope" (Ding et al. 2024) has a factor for each pair.
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
