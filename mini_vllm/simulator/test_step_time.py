"""The model of a step's time: what is counted, how it is fitted, and its file."""

import json
import random
from itertools import product
from pathlib import Path

import pytest

from mini_vllm.errors import InvalidParameterError
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request
from mini_vllm.scheduler import SchedulerOutput
from mini_vllm.simulator import step_time
from mini_vllm.simulator.step_time import FEATURES, StepTimeModel, fit, relative_errors, work_of
from mini_vllm.step import KVPlan

TRUTH = (4e-3, 2e-4, 4e-5, 4e-7, 8e-8, 0.0)
BUNDLED = sorted((Path(step_time.__file__).parent / "calibrations").glob("*.json"))


def works() -> list[tuple[int, ...]]:
    shapes = product((1, 4, 16), (1, 32, 256), (0, 64, 1024))
    return [
        (1, b, b * n, b * (s + n), sum(s + i for i in range(1, n + 1)) * b, 0) for b, n, s in shapes
    ]


def test_work_counts_every_query_and_key() -> None:
    output = SchedulerOutput()
    context = pairs = 0
    for index, (start, n) in enumerate([(0, 5), (7, 1), (100, 33), (0, 1)]):
        request = Request(str(index), [0] * 200, SamplingParams())
        request.num_computed_tokens = start
        output.add(request, n)
        positions = range(start, start + n)
        context += positions[-1] + 1
        pairs += sum(position + 1 for position in positions)
    plan = KVPlan(swap_out=((1, 2), (3, 4)), swap_in=((1, 2),), copy=((5, 6),))
    assert work_of(output, plan) == (1, 4, 40, context, pairs, 4)


def test_a_fit_finds_the_coefficients_that_made_the_times() -> None:
    model = StepTimeModel(TRUTH)
    found = fit(works(), [model.seconds(work) for work in works()])
    assert found == pytest.approx(TRUTH, rel=1e-3, abs=1e-12)


def test_a_fit_is_the_best_that_is_nowhere_negative() -> None:
    rng = random.Random(0)
    seconds = [
        StepTimeModel((4e-3, -1e-4, 4e-5, 4e-7, 0, 0)).seconds(w) * rng.uniform(0.9, 1.1)
        for w in works()
    ]
    seconds = [max(value, 1e-3) for value in seconds]
    found = fit(works(), seconds)

    def loss(coefficients: tuple[float, ...]) -> float:
        model = StepTimeModel(coefficients)
        return sum(
            (model.seconds(work) / value - 1) ** 2
            for work, value in zip(works(), seconds, strict=True)
        )

    assert min(found) == 0.0 == found[-1]
    for i, value in enumerate(found):
        for step in (-1e-2, 1e-2):
            moved = max(value + step * (value or TRUTH[i]), 0.0)
            assert loss((*found[:i], moved, *found[i + 1 :])) >= loss(found) * (1 - 1e-9)


def test_errors_are_relative_to_what_was_measured() -> None:
    model = StepTimeModel((1.0, 0, 0, 0, 0, 0))
    measured = [1.0, 1.0, 0.5, 2.0, 1.25, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert relative_errors(model, [(1, 0, 0, 0, 0, 0)] * 10, measured) == {
        "median": 0.0,
        "p90": 0.5,
    }


def test_the_file_holds_the_model_and_where_it_is_from() -> None:
    model = StepTimeModel(TRUTH, {"machine": "m", "engine": {"num_blocks": 9}})
    assert StepTimeModel.from_json(model.to_json()) == model


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        json.dumps({"schema": 2, "seconds_per": dict.fromkeys(FEATURES, 1.0)}),
        json.dumps({"schema": 1, "seconds_per": dict.fromkeys(FEATURES[1:], 1.0)}),
        json.dumps({"schema": 1, "seconds_per": dict.fromkeys(FEATURES, -1.0)}),
        json.dumps({"schema": 1, "seconds_per": dict.fromkeys(FEATURES, 0.0)}),
        json.dumps({"schema": 1, "seconds_per": dict.fromkeys(FEATURES, float("nan"))}),
    ],
)
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameterError, match="not a calibration"):
        StepTimeModel.from_json(text)


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.stem)
def test_bundled_calibrations_say_what_they_are(path: Path) -> None:
    about = StepTimeModel.from_json(path.read_text()).about
    assert about["kind"] in ("measured", "derived")
    assert {"model", "machine", "date", "engine"} <= set(about)
    assert ("errors" in about) == (about["kind"] == "measured") != ("derivation" in about)
