"""Calibrations: the files that tell how long a step takes, the bundled ones among them, and the
engine of one.

`mini-vllm calibrate` writes such a file; llama-3.1-8b-h100 is derived, from data sheets, and
measured nowhere.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mini_vllm.errors import InvalidParameterError, is_int, shown
from mini_vllm.observe.files import printable, read_text
from mini_vllm.simulator.step_time import StepTimeModel

CALIBRATIONS = Path(__file__).parent / "calibrations"
BUNDLED = sorted(path.stem for path in CALIBRATIONS.glob("*.json"))
MAX_BYTES = 1 << 20
ENGINE_LIMITS = {
    "block_size": 1,
    "num_blocks": 2,
    "max_model_len": 1,
    "max_num_seqs": 1,
    "max_num_batched_tokens": 1,
}


def load_calibration(name: str) -> StepTimeModel:
    """A bundled calibration, or a file. Raises InvalidParameterError."""
    path = CALIBRATIONS / f"{name}.json" if name in BUNDLED else Path(name)
    if name not in BUNDLED and not os.path.exists(name):
        raise InvalidParameterError(
            f"calibration {shown(name)} is neither a file nor one of {BUNDLED}"
        )
    text = read_text(path, MAX_BYTES)
    try:
        return StepTimeModel.from_json(text)
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{printable(path)}: {error}") from error


def engine_config(model: StepTimeModel, given: Mapping[str, Any]) -> dict[str, Any]:
    """The engine of the calibration, with what is given in its place.

    Raises InvalidParameterError for a gap.
    """
    engine = model.about.get("engine", {})
    if not isinstance(engine, dict):
        raise InvalidParameterError(
            f"the calibration's engine must be a JSON object, got {shown(engine)}"
        )
    for name, least in ENGINE_LIMITS.items():
        if name in engine and not is_int(engine[name], least):
            value = shown(engine[name])
            raise InvalidParameterError(
                f"the calibration's {name} must be an integer of at least {least}, got {value}"
            )
    config = {name: engine[name] for name in ENGINE_LIMITS if name in engine}
    config |= {name: value for name, value in given.items() if value is not None}
    missing = [name for name in given if name not in config and name != "max_model_len"]
    if missing:
        raise InvalidParameterError(f"the calibration names no engine: give {', '.join(missing)}")
    return config
