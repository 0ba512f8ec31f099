"""Every right answer of a lab, in every engine that `lab run` makes, gives each request the tokens of the reference."""

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from labkit.cli.running import ENGINES, backend_for
from labkit.labs import source
from labkit.labs.catalog import C_COMPILER, find_lab, labs
from labkit.labs.graft import Part, grafted
from labkit.labs.implementations import other_ways
from labkit.labs.together import why_it_stopped
from labkit.ranks.executor import FourRanks, TwoRanks
from labkit.ranks.mixture import TwoRanksOfExperts
from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.test_recovery import final
from mini_vllm.engine.test_steps_in_flight import FeedingExecutor
from mini_vllm.light.numpy_executor import NumpyExecutor
from mini_vllm.params import SamplingParams, StructuredOutputs
from mini_vllm.policies.tenants import TenantScheduler
from mini_vllm.step import SampledToken, SamplingRow
from mini_vllm.worker.executor import Executor

pytest.importorskip("torch", reason="the runner's batch is of torch")

SIZES: dict[str, Any] = {
    **{"block_size": 4, "num_kv_blocks": 18, "max_num_batched_tokens": 24, "max_num_seqs": 5, "device": "cpu"},
}
ALL = {  # the options of each engine, by the first lab or phase that has it
    "03": {},
    **{
        name: options | ({"num_cpu_blocks": 12} if name in ("03.10", "03.11") else {})
        for name, options in ENGINES.items()
        if options not in [each for other, each in ENGINES.items() if other < name] and "executor_cls" not in options
    },
}
ALL["05 ahead"] = ALL["05"] | {"async_scheduling": True}  # an engine of no lab has both
OF_A_MODEL = ("04", "05.3", "06")  # the shadow reads no mask, no draft model and no block of main memory
OPTIONS = {name: options for name, options in ALL.items() if name not in OF_A_MODEL}


class Repeating(FeedingExecutor):
    """One of two tokens, so that texts repeat themselves and drafts are right half of the time."""

    def sample(self, read: Any, row: SamplingRow) -> SampledToken:
        token = super().sample(read, row)
        return token._replace(token_id=10 + token.token_id % 2)


def outputs_of(options: dict[str, Any]) -> Any:
    """The tokens of a few requests that share prefixes and run out of blocks."""
    engine = LLMEngine(EngineConfig("tiny", **SIZES, **options), executor_cls=Repeating)
    return outputs(engine, num_requests=7)


def outputs_of_the_model(options: dict[str, Any], num_requests: int) -> Any:
    """The same of the bundled model; where masks are there, each request is given a few words to say."""
    engine = LLMEngine(EngineConfig("tiny", **SIZES, **options))
    has_masks = "structured_outputs_backend" in options
    return outputs(engine, num_requests, StructuredOutputs(choice=["paged", "page", "a block"]) if has_masks else None)


def outputs(engine: LLMEngine, num_requests: int, structured: StructuredOutputs | None = None) -> Any:
    rng, has_tenants = random.Random(7), isinstance(engine.scheduler, TenantScheduler)
    shared = [rng.randrange(300) for _ in range(9)]
    for i in range(num_requests):
        prompt = [*shared[: rng.choice((0, 4, 9))], *(rng.randrange(300) for _ in range(rng.randint(1, 14)))]
        params = SamplingParams(temperature=0, max_tokens=rng.randint(4, 18), ignore_eos=True, structured=structured)
        engine.add_request(str(i), prompt, params, cache_salt=f"{i % 2}/" if has_tenants else None)
    return {name: output.outputs[0].token_ids for name, output in final(engine).items()}


GRAFTABLE = [
    lab for lab in labs() if lab.slots and C_COMPILER not in lab.needs
]  # that of 01.9 has a process of its own
EVERY = [(lab.id, name) for lab in GRAFTABLE for name in ("reference", *other_ways(lab))]
OF_RANKS = [(lab_id, name) for lab_id, name in EVERY if lab_id.startswith("08.")]
ANSWERS = [each for each in EVERY if not find_lab(each[0]).needs and each not in OF_RANKS]
NEED_V1S_QUEUE = {  # right answers of 03 that use more of a deque than tenants' queue has, or count on V1's victim
    ("03.2", "a_planner"),
    ("03.3", "a_new_queue"),
    ("03.3", "with_a_diary"),
    ("03.5", "a_key_for_each_policy"),
    ("03.5", "a_key_that_compares_itself"),
    ("03.5", "walk_from_the_back"),
    ("03.13", "by_index"),
}
KERNELS = ("01.4", "01.5")  # the interpreter takes seconds for a few tokens
QUICK = [*random.Random(3).sample(ANSWERS, 4), ("03.1", "outline"), ("03.2", "class_constant_and_isinstance")]


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
            assert outputs_of(options) == expected[engine], engine


@pytest.mark.parametrize(
    ("lab_id", "name"),
    [
        pytest.param(*each, marks=() if each in QUICK else pytest.mark.slow)
        for each in ANSWERS
        if each[0].startswith("03.") and each not in NEED_V1S_QUEUE
    ],
)
def test_a_right_answer_stands_between_tenants(lab_id: str, name: str, tmp_path: Path) -> None:
    options = {"scheduler": "tenants"}
    expected = outputs_of(options)
    with grafted([part_of(lab_id, name, tmp_path)]):
        assert outputs_of(options) == expected


@cache
def expected_of_the_model(engine: str, backend: str, num_requests: int) -> Any:
    return outputs_of_the_model(ALL[engine] | {"attention_backend": backend}, num_requests)


@pytest.mark.nightly
@pytest.mark.parametrize(("lab_id", "name"), EVERY)
def test_a_right_answer_stands_under_a_model(lab_id: str, name: str, tmp_path: Path) -> None:
    """What computes attention, in each engine; all else where the model proposes drafts or reads masks."""
    part = part_of(lab_id, name, tmp_path)
    backend, n = backend_for([part]), 1 if lab_id in KERNELS else 5
    engines = ("03", "05") if lab_id in KERNELS else ALL if find_lab(lab_id).needs else OF_A_MODEL
    for engine in engines:
        expected = expected_of_the_model(engine, backend, n)
        with grafted([part]):
            assert outputs_of_the_model(ALL[engine] | {"attention_backend": backend}, n) == expected, engine


@cache
def outputs_on(executor_cls: type[Executor]) -> Any:
    """The tokens of the bundled model, in NumPy."""
    return outputs(LLMEngine(EngineConfig("tiny", **SIZES), executor_cls=executor_cls), num_requests=4)


@pytest.mark.parametrize(
    "executor_cls", [TwoRanks, *(pytest.param(each, marks=pytest.mark.slow) for each in (FourRanks, TwoRanksOfExperts))]
)
@pytest.mark.parametrize(
    ("lab_id", "name"),
    [pytest.param(*each, marks=() if each == OF_RANKS[0] else pytest.mark.slow) for each in OF_RANKS],
)
def test_a_right_answer_stands_on_ranks(lab_id: str, name: str, executor_cls: type[Executor], tmp_path: Path) -> None:
    expected = outputs_on(NumpyExecutor)
    with grafted([part_of(lab_id, name, tmp_path)]):
        assert outputs_on.__wrapped__(executor_cls) == expected


def draw_a_mix(rng: random.Random) -> dict[str, str]:
    """A right answer of each lab."""
    by_lab: dict[str, list[str]] = {}
    for lab_id, name in ANSWERS:
        by_lab.setdefault(lab_id, []).append(name)
    return {lab_id: rng.choice(names) for lab_id, names in by_lab.items()}


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.slow if seed else ()) for seed in range(40)])
def test_a_mix_of_right_answers_stands_in_every_engine(seed: int, expected: Any, tmp_path: Path) -> None:
    mix = draw_a_mix(random.Random(1000 + seed))
    with grafted([part_of(lab_id, name, tmp_path) for lab_id, name in mix.items()]):
        for engine, options in OPTIONS.items():
            assert outputs_of(options) == expected[engine], (engine, mix)


def stop(*arguments: Any, **named: Any) -> Any:
    raise KeyError("no such thing")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_the_part_that_stops_a_mix_is_named(seed: int, tmp_path: Path) -> None:
    rng = random.Random(2000 + seed)
    lab_id, engine = rng.choice([("02.2", "03.8"), ("02.4", "05"), ("03.2", "05"), ("03.4", "03.10"), ("05.4", "05")])
    parts = [part_of(each, name, tmp_path) for each, name in draw_a_mix(rng).items() if each not in ("03.13",)]
    [broken] = [part for part in parts if part.lab.id == lab_id]
    for own in broken.classes.values():
        own.attributes |= dict.fromkeys(own.answer & own.attributes.keys(), stop)
    with grafted(parts):
        with pytest.raises(KeyError) as error:
            outputs_of(OPTIONS[engine])
        said = why_it_stopped(error.value, parts, lambda: outputs_of(OPTIONS[engine]))
    assert f"With the reference's in place of yours of {lab_id} it runs to its end." in said


def test_the_engines_meet_what_they_are_for(expected: Any) -> None:
    """All give the same tokens, which are as many as were asked for."""
    assert all(outputs == expected["03"] for outputs in expected.values())
    assert sum(map(len, expected["03"].values())) > 60
