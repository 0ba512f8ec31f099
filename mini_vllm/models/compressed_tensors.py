"""Checkpoints that store linear weights in eight bits, in the simple forms of compressed-tensors.

    NAME.weight        [N, K]           int8, or float8 with 4 bits of exponent and 3 of mantissa
    NAME.weight_scale  [N, 1] or [1]    of each output channel, or of the whole weight

A weight stands for weight * weight_scale. A layer whose scale is stored is quantised, and another
is not. So the lists `ignore` and `targets` of config.json, whose entries may be regular
expressions of a stranger, are not read. Zero points, groups and packed bits are refused by the name
of their field. Activations that are to be rounded in each step (`dynamic`), or by a scale in the
file (NAME.input_scale), keep their dtype here, which is closer to the model that was quantised.
Source: compressed-tensors 0.20,
QuantizationConfig and NaiveQuantizationCompressor; vLLM reads the same files.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mini_vllm.errors import UnsupportedModelError, shown
from mini_vllm.models.config_fields import check_only

FORMATS = ("naive-quantized", "int-quantized", "float-quantized")
NOTHING: tuple[object, ...] = (None, {}, [])

CONFIG: Mapping[str, tuple[object, ...]] = {
    "quant_method": ("compressed-tensors",),
    "format": FORMATS,
    **dict.fromkeys(("kv_cache_scheme", "transform_config", "moe_sparsity_config"), NOTHING),
    "sparsity_config": (*NOTHING, {"format": "dense"}),
}
GROUP: Mapping[str, tuple[object, ...]] = {
    "output_activations": NOTHING,
    "format": (None, *FORMATS),
}
WEIGHTS: Mapping[str, tuple[object, ...]] = {
    "num_bits": (8,),
    "type": ("int", "float"),
    "strategy": ("channel", "tensor"),
    "symmetric": (True,),
    "dynamic": (None, False),
    # how the integers were found, not how they are stored
    "actorder": (None, False, "weight", "static"),
    **dict.fromkeys(("group_size", "block_structure"), (None,)),
}
"""What each object of quantization_config may hold; an absent field is null, except for these."""

DEFAULTS = {"num_bits": 8, "type": "int", "symmetric": True}

logger = logging.getLogger("mini_vllm")


class StoredWeights(NamedTuple):
    """How linear weights are stored. dtype: by its name in a safetensors header.

    has_input_scales: of activations, which are not rounded here.
    """

    dtype: str
    is_per_channel: bool
    has_input_scales: bool

    def __str__(self) -> str:
        return "int8" if self.dtype == "I8" else "float8"


def read_quantization_config(file: Path, raw: Any, own: str = "") -> StoredWeights | None:
    """What config.json's quantization_config says; None where there is none, or one whose
    quant_method is the model's own.

    Errors: UnsupportedModelError, by the name of the field, for anything but the forms of this
    module.
    """
    if raw is None or (own and raw.get("quant_method") == own):
        return None
    place = f"{file}: quantization_config"
    if (method := raw.get("quant_method")) != "compressed-tensors":
        raise UnsupportedModelError(
            f"{place} with quant_method {shown(method)} is not supported, only null or "
            "'compressed-tensors'; a checkpoint in 16 bits may be loaded with quantization 'int8'"
        )
    check_only(place, raw, CONFIG)
    groups = raw.get("config_groups")
    if (
        not isinstance(groups, dict)
        or len(groups) != 1
        or not isinstance(next(iter(groups.values())), dict)
    ):
        raise UnsupportedModelError(
            f"{place}: config_groups {shown(groups)} is not supported, only one group"
        )
    name, group = next(iter(groups.items()))
    place = f"{place}: {shown(name)}"
    check_only(place, group, GROUP)
    weights, inputs = group.get("weights"), group.get("input_activations")
    if not isinstance(weights, dict):
        raise UnsupportedModelError(
            f"{place}: weights {shown(weights)} is not supported, only an object"
        )
    check_only(f"{place}: weights", DEFAULTS | weights, WEIGHTS)
    dynamic = inputs.get("dynamic", False) if isinstance(inputs, dict) else ""
    if inputs is not None:
        if not isinstance(dynamic, bool):
            raise UnsupportedModelError(
                f"{place}: input_activations {shown(inputs)} is not supported, only null or an "
                "object whose dynamic is a bool"
            )
        logger.warning("%s: input_activations is not applied, activations keep their dtype", place)
    dtype = "F8_E4M3" if weights.get("type") == "float" else "I8"
    return StoredWeights(dtype, weights["strategy"] == "channel", dynamic is False)
