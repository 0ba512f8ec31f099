"""Any mix of parts, the reference's, other correct ones and learners', gives every request the same tokens."""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from labkit.cli import running
from labkit.compare import behaviour
from labkit.compare.replay import find_trace_files, read_traces, replay
from labkit.grade.runner import FAILED, PASSED, TODO, one_line, read_tests, run_lab
from labkit.labs import progress, source
from labkit.labs.catalog import ROOT, Lab, LabkitError, Phase, find_lab, labs
from labkit.labs.graft import Part, grafted
from labkit.labs.implementations import other_ways, seeded_bugs
from labkit.labs.together import with_company
from mini_vllm.observe.trace import run_trace
from mini_vllm.params import SamplingParams
from mini_vllm.policies.registry import make_scheduler
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import Step
from mini_vllm.step import KVPlan

NUM_MIXES = 200
NUM_SLICES = 8  # so that test workers share the load


def choices(lab: Lab, folder: object) -> list[Part | None]:
    """The reference; its text, grafted as a learner's file would be; every variant."""
    file = folder / f"{lab.id}.py"  # type: ignore[operator]
    file.write_text(source.render_solution(lab), encoding="utf-8")
    variants = [way.part for way in other_ways(lab).values()]
    return [None, Part(lab, file, is_learners=False), *variants]


@pytest.mark.parametrize("lab", [*labs()], ids=lambda lab: lab.id)
def test_every_edit_of_an_answer_fits_the_code(lab: Lab) -> None:
    """So that a change of the reference shows at once which seeded bug it takes the ground from."""
    for answer in (*seeded_bugs(lab).values(), *other_ways(lab).values()):
        assert answer.code


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=pytest.mark.nightly if part else pytest.mark.slow) for part in range(NUM_SLICES)]
)
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


# --- a learner's checkout ---------------------------------------------------------------------------------------------


def solve(folder: Path, lab: Lab, text: str) -> Part:
    """The learner's file of a lab in a checkout."""
    file = folder / lab.typed
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return Part(lab, file)


def second_variant(lab: Lab) -> str:
    """The text of the second of the other correct ways, by name; of the tests where a lab has no other way."""
    ways = list(other_ways(lab).values())
    return ways[1].code if len(ways) > 1 else source.render_solution(lab)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Part]]:
    """All labs that need no torch, solved by the second variants."""
    folder = tmp_path_factory.mktemp("checkout")
    return folder, {lab.id: solve(folder, lab, second_variant(lab)) for lab in labs() if not lab.needs}


@pytest.mark.slow
def test_the_second_variants_are_one_engine(checkout: tuple[Path, dict[str, Part]]) -> None:
    part = checkout[1]["03.13"]
    assert [each.lab.id for each in with_company([part])] == [*part.lab.together, "03.13"]
    results = run_lab(part.lab, [part])
    assert [result.message for result in results if result.outcome != PASSED] == []
    line = "yours in it: 02.1, 02.2, 02.3, 02.4, 03.1, 03.2, 03.3, 03.4, 03.5, 03.6, 03.13"
    assert one_line(part.lab, results).splitlines()[1].strip() == line


@pytest.mark.slow
def test_the_second_variants_decide_every_recorded_trace_as_vllm_did(checkout: tuple[Path, dict[str, Part]]) -> None:
    """Those of 03.8 to 03.11, which are other schedulers' and managers', are in it too, and change nothing."""
    parts = [part for part in checkout[1].values() if part.lab.slots]
    traces = [trace for file in find_trace_files(ROOT / "traces" / "vllm-0.33.0") for trace in read_traces(file)]
    assert len(traces) >= 252
    assert {trace["config"]["policy"] for trace in traces} == {"fcfs", "priority"}
    for chosen in (parts, with_company([checkout[1]["03.13"]])):
        with grafted(chosen):
            found = {trace["name"]: difference for trace in traces if (difference := replay(trace))}
        assert found == {}


def test_a_part_that_is_wrong_is_named(tmp_path: Path) -> None:
    """Its own lab is a matter of its own; here the message says which of the parts must go."""
    lab, pool, slots = (find_lab(lab_id) for lab_id in ("03.13", "02.2", "02.4"))
    solve(tmp_path, find_lab("03.1"), second_variant(find_lab("03.1")))
    solve(tmp_path, find_lab("03.5"), source.render_stub(find_lab("03.5")))
    solve(tmp_path, slots, seeded_bugs(slots)["publishes_from_the_table"].code)
    (tmp_path / pool.typed).parent.mkdir(parents=True)
    (tmp_path / pool.typed).write_text("def (")
    results = run_lab(lab, [solve(tmp_path, lab, second_variant(lab))])
    red = [result for result in results if result.outcome == FAILED and result.concept.searches]
    assert "with the reference's in place of yours of 02.4 this is green" in red[0].message
    said = one_line(lab, results).splitlines()[1].strip()
    assert said.startswith("yours in it: 02.4, 03.1, 03.13; the reference's, since not begun: 02.1, 02.3, 03.3, 03.4")
    assert "; mine.py:1: invalid syntax: 02.2; " in said
    assert said.endswith("; not written yet: 03.5")


def outline(lab_id: str) -> str:
    return other_ways(find_lab(lab_id))["outline"].code


@pytest.mark.parametrize("missing", [("03.5",), ("03.6",), ("03.5", "03.6")])
@pytest.mark.slow
def test_the_reference_has_the_finer_rules_of_labs_that_are_not_written(
    tmp_path: Path, missing: tuple[str, ...]
) -> None:
    """The parts of 03.1 to 03.3 lack them, and are right all the same."""
    for lab_id in {"03.1", "03.2", "03.3", "03.4", "03.5", "03.6"} - set(missing):
        coarse = lab_id in ("03.1", "03.2", "03.3")
        solve(tmp_path, find_lab(lab_id), outline(lab_id) if coarse else second_variant(find_lab(lab_id)))
    lab = find_lab("03.13")
    right, wrong = second_variant(lab), seeded_bugs(lab)["drops_by_the_beginning_of_a_name"].code
    results = run_lab(lab, [solve(tmp_path, lab, right)])
    assert [result.message for result in results if result.outcome != PASSED] == []
    assert one_line(lab, results).endswith(f"not begun: {', '.join(('02.1', '02.2', '02.3', '02.4', *missing))}")
    red = [result for result in run_lab(lab, [solve(tmp_path, lab, wrong)]) if result.message]
    assert red
    for result in red:
        assert "reference's in place of yours of 03.13 this is green; not begun: 02.1, 02.2, 02.3, 0" in result.message


@pytest.mark.parametrize(
    ("lab_id", "old", "new"),
    [
        ("03.5", "max(self.running", "max(reversed(self.running)"),
        ("03.6", "if threshold and len(self._requests) > 1:", "if False:"),
    ],
)
@pytest.mark.slow
def test_a_part_is_to_blame_also_where_an_earlier_lab_has_its_slots(
    tmp_path: Path, lab_id: str, old: str, new: str
) -> None:
    for each in ("03.1", "03.3"):
        solve(tmp_path, find_lab(each), outline(each))
    text = source.render_solution(find_lab(lab_id))
    assert old in text
    solve(tmp_path, find_lab(lab_id), text.replace(old, new))
    results = run_lab(find_lab("03.13"), [solve(tmp_path, find_lab("03.13"), second_variant(find_lab("03.13")))])
    red = [result.message for result in results if result.message]
    assert red
    assert all(f"with the reference's in place of yours of {lab_id} this is green" in message for message in red)


def test_the_learners_own_tests_run_on_the_learners_engine(tmp_path: Path) -> None:
    lab, update, break_it = (find_lab(lab_id) for lab_id in ("03.13", "03.4", "03.7"))
    tests = [test for test in read_tests(lab) if test.name == "test_your_own_tests[of_03_7]"]
    part = solve(tmp_path, lab, second_variant(lab))
    solve(tmp_path, break_it, source.render_solution(break_it))
    assert [result.outcome for result in run_lab(lab, [part], tests)] == [PASSED]
    solve(tmp_path, update, seeded_bugs(update)["keeps_the_blocks"].code)
    (result,) = run_lab(lab, [part], tests)
    assert result.outcome == FAILED
    assert "your tests of 03.7, on your engine: test_" in result.message
    assert "with the reference's in place of yours of 03.4 this is green" in result.message


def test_an_unwritten_scheduler_is_to_do(tmp_path: Path) -> None:
    lab = find_lab("03.13")
    assert {result.outcome for result in run_lab(lab, [solve(tmp_path, lab, source.render_stub(lab))])} == {TODO}


PHASES = ("03", "04", "05", "07", "08")


# --- lab run ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """`lab run` without torch, in a checkout where the labs that are named have a file and are done."""
    copies = [replace(lab, folder=tmp_path / lab.folder.relative_to(ROOT)) for lab in labs() if lab.id[:2] in PHASES]
    found = [Phase(n, "Test", tmp_path, tuple(lab for lab in copies if lab.id[:2] == n)) for n in PHASES]
    monkeypatch.setattr(running, "phases", lambda: found)
    monkeypatch.setattr(running, "labs", lambda: iter(copies))
    monkeypatch.setattr(running, "find_lab", lambda lab_id: next(lab for lab in copies if lab.id == lab_id))
    for module in ("engine.core_factory", "models.checkpoint"):
        monkeypatch.setattr(f"mini_vllm.{module}.find_spec", lambda package: None)

    def call(
        done: dict[str, str],
        what: str = "03",
        prompt: str | None = None,
        green: Mapping[str, str] | None = None,
        mine: str = "phase",
    ) -> str:
        for lab in copies:
            if lab.id in done:
                lab.mine.parent.mkdir(parents=True, exist_ok=True)
                lab.mine.write_text(done[lab.id], encoding="utf-8")
        known: dict[str, dict[str, object]] = {lab_id: {"passed": 1, "total": 1} for lab_id in done}
        for lab_id, fingerprint in (green or {}).items():
            known[lab_id]["green"] = fingerprint
        monkeypatch.setattr(progress, "read", lambda: known)
        assert running.run(what, prompt, mine) == 0
        return capsys.readouterr().out

    return call


def solved(*lab_ids: str) -> dict[str, str]:
    return {lab_id: second_variant(find_lab(lab_id)) for lab_id in lab_ids}


@pytest.mark.slow
def test_lab_run_names_what_is_in_and_what_is_left_out(run: Callable[..., str]) -> None:
    said = run(solved("03.1", "03.4", "03.8", "03.9") | {"03.6": "def (", "03.5": source.render_stub(find_lab("03.5"))})
    assert "Yours: 03.1, 03.4, 03.9.\n" in said
    assert "The reference's, since they are not done: 03.2, 03.3, 03.13.\n" in said
    assert "The reference's, since mine.py:1: invalid syntax: 03.6.\n" in said
    assert "The reference's, since they are no longer written: 03.5.\n" in said
    assert "The reference's, for other engines (`lab run ID` takes that of a lab): 03.8, 03.10, 03.11.\n" in said
    assert all(name in said for name in ("ann-2", "eve", "preempted", "A KV block is a fixed-size piece"))
    assert "the same decisions as the reference in all 100 scenarios" in said
    assert "Not exercised: the threshold (03.1 need not know that, and 03.6 adds it)." in said
    assert "Beside vLLM 0.33.0: every step of the 170 recorded traces that exercise no other rule (of 255) is" in said


@pytest.mark.nightly
def test_lab_run_says_of_vllm_only_what_was_exercised(run: Callable[..., str]) -> None:
    said = run({"03.2": other_ways(find_lab("03.2"))["outline"].code})
    assert "Yours: 03.2.\n" in said
    assert "Not exercised: priority, the threshold, the watermark, the reservation, prompts in one piece (03.2" in said
    assert re.search(r"Beside vLLM 0.33.0: every step of the \d+ recorded traces that exercise no other rule", said)
    said = run(solved("03.1", "03.2", "03.3", "03.4", "03.5", "03.6", "03.13"))
    assert "Beside vLLM 0.33.0: 255 of the 255 recorded traces are replayed, 252 of them step for step." in said
    assert "In the other 3 vLLM reads blocks that were never computed; yours reads none." in said


@pytest.mark.nightly
def test_lab_run_names_what_has_changed_since_it_was_green(run: Callable[..., str], tmp_path: Path) -> None:
    parts = solved("03.4", "03.9")
    (tmp_path / "03.4").write_text(parts["03.4"], encoding="utf-8")
    green = {"03.4": progress.fingerprint(tmp_path / "03.4"), "03.9": "that of another text"}
    said = run(parts, prompt="Yes?", green=green)
    assert "Changed since its last green run: 03.9. (`lab test 03.9` grades it.)" in said
    assert "Changed" not in run(parts, prompt="Yes?")


@pytest.mark.slow
def test_lab_run_of_a_lab_takes_its_engine(run: Callable[..., str]) -> None:
    said = run(solved("03.1", "03.8"), "03.8", "What is it?")
    assert "Yours: 03.1, 03.8.\n" in said
    assert "The engine has scheduler='prefill_first'." in said
    assert "Beside vLLM" not in said
    assert "Nothing of yours is in it: this is the reference." in run({}, "03.11")
    with pytest.raises(LabkitError, match="There is no lab or phase '09'"):
        running.run("09", None, "phase")


@pytest.mark.slow
def test_lab_run_of_phase_04_forces_a_word_and_finds_a_call(run: Callable[..., str]) -> None:
    said = run(solved("04.1", "04.2"), "04")
    assert "Yours: 04.1, 04.2.\n" in said
    assert "\n  KV block\n" in said
    assert re.search(r"^'KV' +10 +'K', 'b'", said, re.M)
    assert "allowed of 2,048" in said
    assert "The masks were asked 7 times" in said
    assert re.search(r"^'<' +- +'\\n<' *$", said, re.M)
    assert re.search(r"^'>' +\{\"name\": \"explain\"", said, re.M)
    assert "called in this run: TokenTrie of 04.1, TokenMasks of 04.1, HermesParser of 04.2.\n" in said
    said = run({"04.2": seeded_bugs(find_lab("04.2"))["tags_of_one_piece"].code}, "04")
    assert '{"name": ' not in said.replace("'", "")
    assert re.search(r"^'<' +'\\n<'", said, re.M)


@pytest.mark.slow
def test_lab_run_of_phase_05_shows_what_drafts_pay(run: Callable[..., str]) -> None:
    said = run(solved("05.1", "05.2", "05.4", "05.5"), "05")
    assert "Yours: 05.1, 05.2, 05.4, 05.5.\n" in said
    [row] = re.findall(r"^again +50 +50 +(\d+) +(\S+) +(\d+) +(\d+) ", said, re.M)
    num_steps, rate, num_drafts, num_right = map(float, row)
    assert num_steps < 25
    assert rate == round(50 / num_steps, 2)
    assert num_drafts >= num_right > 30
    assert "The tokens are the same with drafts and without." in said
    assert "again    ▪ ●▪ ●●●●▪" in said
    assert "●●○○▪" in said
    assert "A[ KV] block[ is a fixed-]size[" in said
    assert "[ prompt.]~ Prefi~ Many" in said
    for name in ("NgramProposer of 05.1", "accept of 05.2", "_take_in_accepted of 05.4", "_preempt of 05.4", "Pace of"):
        assert name in said.partition("Yours, called in this run: ")[2].partition("\n")[0]
    assert "Yours, not called in it: num_slots of 05.4, update_draft_token_ids of 05.4.\n" in said
    code, compared = source.render_solution(find_lab("05.2")), "before[-1].token_id != step.token_ids[row]"
    assert compared in code
    said = run(solved("05.1") | {"05.2": code.replace(compared, "False")}, "05")
    assert "WRONG: with drafts the tokens of" in said


def test_hits_are_counted_where_an_outline_leaves_it_out() -> None:
    """The outline of 03.2 admits without _admit; what is said of hits is right all the same."""
    found = []
    for impl in ("reference", "outline"):
        lab = find_lab("03.2")
        parts = [] if impl == "reference" else [other_ways(lab)[impl].part]
        with grafted(parts):
            scheduler = make_scheduler(
                {"num_blocks": 20, "block_size": 2, "max_num_seqs": 4, "max_num_batched_tokens": 9}
            )
            books = running.Bookkeeper(scheduler)
            requests = [Request(name, [1, 2, 3, 4, 5], SamplingParams(max_tokens=3)) for name in "abc"]
            for request in requests:
                scheduler.add_request(request)
            while scheduler.has_unfinished_requests():
                books.before_schedule()
                output = scheduler.schedule()
                books.after_schedule(Step(output, KVPlan()))
                sampled = {
                    request.request_id: [7]
                    for request in output.scheduled_requests
                    if scheduler.needs_sample(request, output.num_scheduled_tokens[request.request_id])
                }
                scheduler.update_from_output(output, sampled)
            found.append(([request.num_cached_tokens for request in requests], scheduler.prefix_cache_stats))
    assert found[0] == found[1]
    assert found[0][0] == [0, 4, 4]


@pytest.mark.slow
def test_lab_run_names_the_part_that_stops_the_engine(run: Callable[..., str]) -> None:
    """An error far from the part, one that passes its lines, and one that two parts make together."""
    parts = solved("03.1", "03.3", "03.4")
    keeps_the_blocks = seeded_bugs(find_lab("03.4"))["keeps_the_blocks"].code
    raising = parts["03.4"].replace("        gone = []\n", '        gone = [{}["a key"]]\n')
    assert raising != parts["03.4"]
    for broken, line in ((raising, 'mine.py:16: gone = [{}["a key"]]'), (keeps_the_blocks, "")):
        with pytest.raises(LabkitError, match="The engine stopped") as stopped:
            run(parts | {"03.4": broken})
        assert line in str(stopped.value)
        assert "in place of yours of 03.4 it runs to its end" in str(stopped.value)


@pytest.mark.slow
def test_lab_run_of_phase_07_shows_a_device_that_is_busy(run: Callable[..., str]) -> None:
    said = run(solved("07.1"), "07")
    assert "Yours: 07.1.\n" in said
    rows = re.findall(r"^one step (at a time|ahead) +(\d+) +(\d+) +(\S+) +(\d+)%$", said, re.M)
    [(_, _, _, plain, plain_busy), (_, _, _, ahead, ahead_busy)] = rows
    assert float(plain) == 8.0
    assert float(ahead) <= 1.1 * 5
    assert int(plain_busy) < 65
    assert int(ahead_busy) > 95
    assert "\none step ahead\n  host    1122···133··244··355" in said
    assert "device  ··1111122222333334444455555" in said
    assert "The tokens are the same.\nRequests were preempted 1 times." in said
    for name in ("_advance", "_target", "_preempt", "update_from_output"):
        assert f"{name} of 07.1" in said.partition("Yours, called in this run: ")[2].partition("\n")[0]


@pytest.mark.slow
def test_lab_run_of_phase_08_runs_the_model_on_two_ranks(run: Callable[..., str]) -> None:
    every = [lab for lab in labs() if lab.id.startswith("08.") and lab.slots]
    said = run(solved(*(lab.id for lab in every)), "08", prompt="What is a KV block?")
    assert f"Yours: {', '.join(lab.id for lab in every)}.\n" in said
    assert said.count("The tokens are those of one process.\n") == 2
    assert len(set(re.findall(r"^rank \d +(.+)$", said, re.M))) == 1
    called = said.partition("Yours, called in this run: ")[2].partition("\n")[0]
    for lab in every:
        for slot in lab.slots:
            assert f"{slot.name} of {lab.id}" in called
    for lab_id, bug in (("08.1", "a_part_of_the_stack"), ("08.5", "minus_one_is_the_last")):
        wrong = seeded_bugs(find_lab(lab_id))[bug].code
        assert "WRONG: " in run({lab_id: wrong}, "08", prompt="What is a KV block?")


@pytest.mark.slow
def test_lab_run_ends_an_engine_that_makes_no_progress(run: Callable[..., str]) -> None:
    """A part that counts no placeholder is asked for no token, and one that counts them waits for it."""
    by_length = other_ways(find_lab("03.1"))["functions_of_the_module"].code
    parts = {"07.1": other_ways(find_lab("07.1"))["in_plain_words"].code, "03.1": by_length}
    assert "Yours: 03.1, 07.1.\n" in run(parts, "07", mine="all")
    known_alone = by_length.replace("len(request.output_token_ids)", "sum(t >= 0 for t in request.output_token_ids)")
    assert known_alone != by_length
    with pytest.raises(LabkitError, match="200 steps in a row brought no token") as stopped:
        run(parts | {"03.1": known_alone}, "07", mine="all")
    assert "in place of yours of 03.1 it runs to its end" in str(stopped.value)
