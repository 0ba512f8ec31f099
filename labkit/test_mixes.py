"""Any mix of parts, the reference's, other correct ones and learners', gives every request the same tokens."""

import random

import pytest

from labkit import behaviour, source
from labkit.catalog import Lab, labs
from labkit.graft import Part, grafted
from labkit.implementations import proof_part
from mini_vllm.observe.trace import run_trace

NUM_MIXES = 200
NUM_SLICES = 4  # so that test workers share the load


def choices(lab: Lab, folder: object) -> list[Part | None]:
    """The reference; its text, grafted as a learner's file would be; every variant."""
    file = folder / f"{lab.id}.py"  # type: ignore[operator]
    file.write_text(source.render_solution(lab), encoding="utf-8")
    variants = [proof_part(lab, path) for path in sorted((lab.proof / "variants").glob("*.py"))]
    return [None, Part(lab, file, is_learners=False), *variants]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(NUM_SLICES))
def test_any_mix_of_parts_gives_the_same_tokens(part: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("mix")
    by_lab = [choices(lab, folder) for lab in labs() if lab.slots and not lab.needs]
    assert len(by_lab) > 1
    assert all(len(each) >= 2 for each in by_lab)
    cases = list(behaviour.scenarios())
    expected = [run_trace(scenario)["outputs"] for scenario in cases]
    for seed in range(part, NUM_MIXES, NUM_SLICES):
        rng = random.Random(seed)
        mix = [chosen for each in by_lab if (chosen := rng.choice(each)) is not None]
        with grafted(mix):
            for scenario, outputs in zip(cases, expected, strict=True):
                assert run_trace(scenario, max_steps=5_000)["outputs"] == outputs, (
                    scenario["name"],
                    [str(each.file) for each in mix],
                )
