"""`lab run 06` on every right answer of its labs: the tokens of the reference, from groups and from tiers."""

from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from rich.console import Console

from labkit.cli import memory
from labkit.cli.running import make_llm
from labkit.compare import behaviour
from labkit.labs import source
from labkit.labs.catalog import find_lab, labs
from labkit.labs.graft import Part, grafted
from labkit.labs.implementations import other_ways
from mini_vllm.params import SamplingParams

pytest.importorskip("torch", reason="groups and tiers are of the executor with torch")

ANSWERS = [
    (lab.id, name)
    for lab in labs()
    if lab.id.startswith("06.") and lab.slots and lab.id != "06.6"  # this engine lends nothing
    for name in ("reference", *other_ways(lab))
]
OPTIONS: dict[str, dict[str, Any]] = {
    "groups": {"block_size": 4, "num_kv_blocks": 70, "max_num_batched_tokens": 16, "max_model_len": 96},
    "tiers": {"block_size": 4, "num_kv_blocks": 24, "kv_offload_bytes": 1 << 17, "max_num_seqs": 2},
}
SHARED = [11 + 7 * i % 200 for i in range(24)]
PROMPTS = [SHARED[:n] + [40 + i] * 6 for i, n in enumerate((24, 24, 0, 12, 24, 20))]
PARAMS = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)


def part_of(lab_id: str, name: str, folder: Path) -> Part:
    lab = find_lab(lab_id)
    if name != "reference":
        return other_ways(lab)[name].part
    file = folder / f"{lab_id}.py"
    file.write_text(source.render_solution(lab), encoding="utf-8")
    return Part(lab, file, is_learners=False)


def visit(llm: Any) -> list[list[int]]:
    return [list(output.outputs[0].token_ids) for output in llm.generate(PROMPTS, PARAMS)]


def tokens_of(engine: str) -> list[list[list[int]]]:
    """Two visits; of tiers one more after the engine has started again."""
    with TemporaryDirectory() as folder:
        options = dict(OPTIONS[engine])
        if engine == "groups":
            options["model"] = memory.with_window(Path(folder) / "windows")
        else:
            options["kv_offload_path"] = f"{folder}/blocks"
        llm = make_llm(**options)
        visits = [visit(llm), visit(llm)]
        if engine == "tiers":
            llm.engine.shutdown()
            llm = make_llm(**options)
            visits.append(visit(llm))
            assert llm.engine.scheduler.kv_cache_manager.connector.stats.num_loaded > 4
            llm.engine.shutdown()
        kv = llm.engine.scheduler.kv_cache_manager
        assert kv.num_free_blocks == kv.num_usable_blocks
        return visits


expected = cache(tokens_of)
SELDOM = {"HostTier.drop", "HostTier.num_held_blocks"}  # by a load that has failed, and by tests that count


@pytest.mark.slow
@pytest.mark.parametrize(("lab_id", "name"), ANSWERS)
def test_a_right_answer_gives_the_tokens_of_the_reference(lab_id: str, name: str, tmp_path: Path) -> None:
    wanted = {engine: expected(engine) for engine in OPTIONS}
    part, called = part_of(lab_id, name, tmp_path), set[behaviour.Called]()
    with grafted([part]), behaviour.noting_calls([part], called):
        assert {engine: tokens_of(engine) for engine in OPTIONS} == wanted
    wanted_calls = {(lab_id, slot) for slot, _ in part.replacements if slot.qualname not in SELDOM}
    assert called >= wanted_calls, "each part is called"


@pytest.mark.slow
def test_a_conversation_is_found_again(tmp_path: Path) -> None:
    written = StringIO()
    out = Console(file=written, width=100, highlight=False, soft_wrap=True)
    memory.groups_and_tiers(out, make_llm, None, {"kv_offload_bytes": 1 << 22})
    text = written.getvalue()
    assert text.count("The tokens are the same.") == text.count("The last answer is the same.") == 1
    rows = {line[:24].strip(): line.split() for line in text.splitlines() if "  " in line}
    whole, groups = (float(rows[name][-1]) for name in ("one table for all layers", "a table for each group"))
    assert groups < 0.6 * whole
