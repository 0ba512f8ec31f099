"""Every right answer of a lab, in every engine that `lab run` makes, gives each request the tokens of the reference."""

import random
from pathlib import Path
from typing import Any

import pytest

from labkit.cli.running import ENGINES
from labkit.labs import source
from labkit.labs.catalog import find_lab, labs
from labkit.labs.graft import Part, grafted
from labkit.labs.implementations import other_ways
from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.test_recovery import ShadowExecutor, final
from mini_vllm.params import SamplingParams
from mini_vllm.step import SampledToken, SamplingRow

pytest.importorskip("torch", reason="the runner's batch is of torch")

SIZES: dict[str, Any] = {
    **{"block_size": 4, "num_kv_blocks": 18, "max_num_batched_tokens": 24, "max_num_seqs": 5, "device": "cpu"},
}
OPTIONS = {  # of each engine, by the first lab or phase that has it; the shadow reads no mask and no draft model
    "03": {},
    **{
        name: options | ({"num_cpu_blocks": 12} if name in ("03.10", "03.11") else {})
        for name, options in ENGINES.items()
        if name in ("03.8", "03.10", "03.11", "05")
    },
}


class Repeating(ShadowExecutor):
    """One of two tokens, so that texts repeat themselves and drafts are right half of the time."""

    def sample(self, read: Any, row: SamplingRow) -> SampledToken:
        token = super().sample(read, row)
        return token._replace(token_id=10 + token.token_id % 2)


def outputs_of(options: dict[str, Any]) -> Any:
    """The tokens of a few requests that share prefixes and run out of blocks."""
    engine = LLMEngine(EngineConfig("tiny", **SIZES, **options), executor_cls=Repeating)
    rng = random.Random(7)
    shared = [rng.randrange(300) for _ in range(9)]
    for i in range(7):
        prompt = [*shared[: rng.choice((0, 4, 9))], *(rng.randrange(300) for _ in range(rng.randint(1, 14)))]
        params = SamplingParams(temperature=0, max_tokens=rng.randint(4, 18), ignore_eos=True)
        engine.add_request(str(i), prompt, params)
    return {name: output.outputs[0].token_ids for name, output in final(engine).items()}


ANSWERS = [(lab.id, name) for lab in labs() if lab.slots and not lab.needs for name in ("reference", *other_ways(lab))]
QUICK = [*random.Random(3).sample(ANSWERS, 4), ("03.1", "outline"), ("03.2", "class_constant_and_isinstance")]


# Answers that do not stand in an engine: their labs say nothing of what it needs.
NOT_YET = {
    ("02.3", "own_init"): ("03.10", "03.11"),  # whose managers have an __init__ of their own
    ("02.4", "fresh_hits_apart"): ("05",),  # where slots are asked for drafts, too
    ("02.4", "one_block_at_a_time"): ("05",),
    ("02.4", "tail_is_withdrawn_first"): ("05",),
}


@pytest.fixture(scope="module")
def expected() -> Any:
    return {name: outputs_of(options) for name, options in OPTIONS.items()}


def part_of(lab_id: str, name: str, folder: Path) -> Part:
    lab = find_lab(lab_id)
    if name != "reference":
        return other_ways(lab)[name].part
    file = folder / f"{lab_id}.py"
    file.write_text(source.render_solution(lab), encoding="utf-8")
    return Part(lab, file, is_learners=False)


@pytest.mark.parametrize(
    ("lab_id", "name"),
    [pytest.param(*each, marks=() if each in QUICK else pytest.mark.slow) for each in ANSWERS],
)
def test_a_right_answer_stands_in_every_engine(lab_id: str, name: str, expected: Any, tmp_path: Path) -> None:
    with grafted([part_of(lab_id, name, tmp_path)]):
        for engine, options in OPTIONS.items():
            if engine in NOT_YET.get((lab_id, name), ()):
                with pytest.raises((AttributeError, IndexError)):
                    outputs_of(options)
            else:
                assert outputs_of(options) == expected[engine], engine


def test_the_engines_meet_what_they_are_for(expected: Any) -> None:
    """All give the same tokens, which are as many as were asked for."""
    assert all(outputs == expected["03"] for outputs in expected.values())
    assert sum(map(len, expected["03"].values())) > 60
