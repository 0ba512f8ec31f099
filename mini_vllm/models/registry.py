"""From a checkpoint to its model: the class that config.json names, with the weights.

A new model is one file that says how it differs from its kin, and one entry in MODELS
(config_fields.py).
"""

import ctypes
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name

import torch

from mini_vllm.errors import InvalidParameterError, UnsupportedModelError, shown
from mini_vllm.models.compressed_tensors import read_quantization_config
from mini_vllm.models.config_fields import MODELS, HFConfig
from mini_vllm.models.decoder import DecoderModel
from mini_vllm.models.weights import Checkpoint, WeightLoader
from mini_vllm.parallel.shard import WHOLE, Shard

META = torch.device("meta")


def load_model(
    path: Path,
    hf_config: HFConfig,
    *,
    dtype: torch.dtype,
    device: torch.device,
    shard: Shard = WHOLE,
    quantization: str | None = None,
    accept: Callable[[DecoderModel], object] | None = None,
) -> DecoderModel:
    """The checkpoint's model, its weights in dtype on device; of layers that are cut, the part of
    this shard.

    quantization: "int8" quantises the weights of linear layers as they are loaded, one layer at a
    time. Weights that are stored quantised (compressed_tensors.py) are read as they are. accept: is
    given the model without memory, on torch's meta device, and may refuse it by an error.

    Errors, all of them before memory is taken: UnsupportedModelError; InvalidParameterError for a
    quantization of weights that are stored quantised; InvalidParameterError for heads that cannot
    be shared out among the shards; WeightsMismatchError when model and checkpoint do not have
    exactly the same tensors; the errors of Checkpoint.
    """
    model_class = class_of(hf_config)
    stored = read_quantization_config(
        path / "config.json",
        getattr(hf_config, "quantization_config", None),
        model_class.quant_method,
    )
    if stored and quantization:
        raise InvalidParameterError(
            f"quantization {quantization!r}: {path} stores its weights as {stored} already"
        )
    # the meta device has shapes and no memory: what is wrong shows there
    for place in dict.fromkeys((META, device)):
        checkpoint = Checkpoint(path, headers_only=place == META)
        model = model_class(
            hf_config, WeightLoader(checkpoint, dtype, place, shard, "", quantization, stored)
        )
        checkpoint.finish()
        if accept and place == META:
            accept(model)
    give_back()
    return model.eval()


def class_of(hf_config: HFConfig) -> type[DecoderModel]:
    """The class that config.json names.

    Errors: UnsupportedModelError if there is none, or model_type says another.
    """
    place = MODELS[hf_config.model_type]
    expected = place.partition(":")[2]
    model_class: type[DecoderModel] = resolve_name(place)
    named = [
        each for each in MODELS.values() if [each.partition(":")[2]] == hf_config.architectures
    ]
    if model_class not in map(resolve_name, named):
        raise UnsupportedModelError(
            f"architectures {shown(hf_config.architectures)} of model_type "
            f"{hf_config.model_type!r} is not supported, only {[expected]}"
        )
    return model_class


def give_back() -> None:
    """Return to the system what loading has freed. glibc keeps it, in holes between weights that
    were made smaller.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
