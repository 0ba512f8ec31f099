"""How long a step takes: linear in six counts of what it computes, with coefficients that are never
negative.

    step            1                                  launch, schedule and unpack; on a GPU also
                    reading the weights
    request         requests in the batch              what is done row by row: packing, sampling
    token           scheduled tokens                   the matrix products
    context_token   K and V positions that are read    a chunk [s, s + n) reads s + n of them
    attended_pair   (query, key) pairs                 the same chunk has n * s + n * (n + 1) / 2
    copied_block    blocks swapped out, in, or copied  the bus

A decode at position s reads s + 1 positions in s + 1 pairs; a long chunk reads few positions in
many pairs. A GPU is bound by the first in decodes and by the second in prefills, so both are
needed. Made for an engine that prepares the next step after the last (no overlap), as this one
does.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul
from typing import Any

from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.scheduler import SchedulerOutput
from mini_vllm.step import KVPlan

FEATURES = ("step", "request", "token", "context_token", "attended_pair", "copied_block")
CALIBRATION_VERSION = 1
MAX_SECONDS = 1e6  # of one of anything: a request, a token, a block

Work = tuple[int, ...]  # the counts of one step, in the order of FEATURES


def work_of(output: SchedulerOutput, plan: KVPlan) -> Work:
    """The counts of a step.

    Call it after schedule() and begin_step(), and before update_from_output().
    """
    num_tokens = context = pairs = 0
    counts = output.num_scheduled_tokens
    for request in output.scheduled_requests:
        n = counts[request.request_id]
        end = request.num_computed_tokens + n
        num_tokens += n
        context += end
        pairs += end if n == 1 else n * end - n * (n - 1) // 2
    copied = len(plan.swap_out) + len(plan.swap_in) + len(plan.copy)
    return (1, len(counts), num_tokens, context, pairs, copied)


@dataclass(frozen=True, slots=True)
class StepTimeModel:
    """Seconds of each count of FEATURES, in that order, and where they are from."""

    coefficients: tuple[float, ...]
    # the other fields of the calibration file
    about: Mapping[str, Any] = field(default_factory=dict)

    def seconds(self, work: Work) -> float:
        return float(sum(map(mul, self.coefficients, work)))

    def to_json(self) -> str:
        """The calibration file."""
        coefficients = dict(zip(FEATURES, self.coefficients, strict=True))
        return (
            json.dumps(
                {"schema": CALIBRATION_VERSION, **self.about, "seconds_per": coefficients}, indent=2
            )
            + "\n"
        )

    @classmethod
    def from_json(cls, text: str) -> "StepTimeModel":
        """Read a calibration file. Raises InvalidParameterError for anything else."""
        try:
            record = json.loads(text)
            if record["schema"] != CALIBRATION_VERSION:
                raise ValueError(
                    f"schema {shown(record['schema'])}, known is {CALIBRATION_VERSION}"
                )
            coefficients = tuple(float(record["seconds_per"][name]) for name in FEATURES)
            if not all(0 <= value <= MAX_SECONDS for value in coefficients) or not any(
                coefficients[:3]
            ):
                limits = f"in [0, {MAX_SECONDS:g}]"
                raise ValueError(
                    f"seconds_per must be {limits}, and a step must take time, got {coefficients}"
                )
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise InvalidParameterError(
                f"not a calibration: {type(error).__name__} {error}"
            ) from error
        return cls(
            coefficients,
            {
                name: value
                for name, value in record.items()
                if name not in ("schema", "seconds_per")
            },
        )


def fit(works: Sequence[Work], seconds: Sequence[float]) -> tuple[float, ...]:
    """The coefficients that make the sum of the squared relative errors least, none of them
    negative.

    Coordinate descent on the normal equations, exact in each coordinate: the problem is convex, so
    it ends at the minimum. A count that is 0 in every step gets the coefficient 0.
    """
    rows = [
        [count / measured for count in work] for work, measured in zip(works, seconds, strict=True)
    ]
    columns = list(zip(*rows, strict=True))
    scales = [sum(x * x for x in column) ** 0.5 or 1.0 for column in columns]
    columns = [
        tuple(x / scale for x in column) for column, scale in zip(columns, scales, strict=True)
    ]
    gram = [[sum(map(mul, a, b)) for b in columns] for a in columns]
    target = [sum(column) for column in columns]
    solution = [0.0] * len(columns)
    for _ in range(100_000):
        change = 0.0
        for i, row in enumerate(gram):
            if row[i] == 0:
                continue
            value = max(solution[i] + (target[i] - sum(map(mul, row, solution))) / row[i], 0.0)
            change = max(change, abs(value - solution[i]))
            solution[i] = value
        if change < 1e-9 * max(solution):
            break
    return tuple(x / scale for x, scale in zip(solution, scales, strict=True))


def relative_errors(
    model: StepTimeModel, works: Sequence[Work], seconds: Sequence[float]
) -> dict[str, float]:
    """Median and 90th percentile of |predicted - measured| / measured."""
    errors = sorted(
        abs(model.seconds(work) / measured - 1)
        for work, measured in zip(works, seconds, strict=True)
    )
    return {"median": errors[len(errors) // 2], "p90": errors[-(-len(errors) * 9 // 10) - 1]}
