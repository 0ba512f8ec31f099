"""Pages: that of `lab diff`, two figures of one scenario, and what a page of the book asks of the labs."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labkit import cli
from labkit.cli import commands
from labkit.compare import behaviour
from labkit.labs import source
from labkit.labs.catalog import ROOT, Lab, LabkitError, find_lab
from labkit.labs.graft import Part
from labkit.labs.implementations import part_of
from labkit.web import book as web
from labkit.web import page

TRACE = re.compile(r'<script type="application/json" id="trace-\d">(.*?)</script>', re.DOTALL)


def part(impl: str) -> Part:
    found = part_of(find_lab("03.2"), impl)
    assert found
    return found


@pytest.fixture
def diff(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> object:
    """`lab diff ID --html FILE` on a file that counts as the learner's, which has passed: its status and output."""

    def run(impl: str, *arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(commands, "make_mine", lambda lab: False)
        monkeypatch.setattr(commands.progress, "is_done", lambda lab_id, data: True)
        monkeypatch.setattr(commands, "part_of", lambda lab, _: part_of(lab, impl))
        monkeypatch.setattr(Lab, "mine", property(lambda lab: lab.stub))
        with pytest.raises(SystemExit) as exit_:
            cli.main(["diff", *arguments])
        said = capsys.readouterr()
        return int(exit_.value.code or 0), said.out + said.err

    return run


def test_other_decisions_are_shown_from_the_first_one_on(tmp_path: Path) -> None:
    parts, file = [part("bug:newcomers_first")], tmp_path / "diff.html"
    said = page.write(file, find_lab("03.2"), parts)
    text = file.read_text(encoding="utf-8")
    mine, reference = (json.loads(match) for match in TRACE.findall(text))
    first = next(behaviour.compare(parts))
    assert mine["name"] == reference["name"] == first.scenario
    at = behaviour.first_differing_step(mine["steps"], reference["steps"])
    assert at is not None
    assert reference["steps"][at]["step"] == first.step
    assert f"Other decisions first in step {first.step}." in said
    assert text.count(f'data-sync="both" data-step="{first.step}"') == 2
    assert first.scenario in text


def test_without_a_difference_the_first_scenario_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "diff.html"
    said = page.write(file, find_lab("03.2"), [])
    mine, reference = (json.loads(match) for match in TRACE.findall(file.read_text(encoding="utf-8")))
    assert mine == reference
    assert mine["name"] == next(behaviour.scenarios())["name"]
    assert "The same decisions in all 100 scenarios" in said


def test_a_page_that_cannot_be_written_is_refused_as_by_mini_vllm(tmp_path: Path) -> None:
    file = tmp_path / "no" / "such" / "file"
    with pytest.raises(LabkitError, match="^" + re.escape(f"cannot write {file}: No such file or directory") + "$"):
        page.write(file, find_lab("03.2"), [])


@pytest.mark.slow
def test_the_command(diff, tmp_path: Path) -> None:
    file = tmp_path / "diff.html"
    status, said = diff("bug:newcomers_first", "03.2", "--html", str(file))
    assert status == 0
    assert f"wrote {file}: yours beside the reference. Other decisions first in step " in said
    assert len(TRACE.findall(file.read_text(encoding="utf-8"))) == 2
    assert diff("bug:newcomers_first", "03.2")[0] == 0
    status, said = diff("bug:newcomers_first", "03.2", "--html", str(tmp_path))
    assert (status, said.splitlines()[-1]) == (2, f"cannot write {tmp_path}: Is a directory")
    status, said = diff("stub", "03.2", "--html", str(file))
    assert status == 2
    assert "Lab 03.2: no decisions to draw." in said


# --- what a page of the book asks for, in a process of its own: it takes the engine out of sys.modules ----------------

CALL = "import json, sys; from labkit.web import book; print(getattr(book, sys.argv[1])(*sys.argv[2:]))"


def call(*arguments: str) -> Any:
    """A function of labkit.web.book, on its arguments."""
    command = [sys.executable, "-c", CALL, *arguments]
    return json.loads(subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", {}),
        pytest.param("x = 1", {}, marks=pytest.mark.slow),
        ("x = 1\nx + 1", {"text": "2"}),
        pytest.param("None", {}, marks=pytest.mark.slow),
        ("{'steps': [], 'name': 'n'}", {"trace": {"steps": [], "name": "n"}}),
        ("{'steps': {1}}", {"text": "{'steps': {1}}"}),
    ],
)
def test_a_cell_answers_with_its_last_expression(text: str, answer: dict[str, Any]) -> None:
    assert call("run_cell", text) == answer


def test_a_cell_that_raises_shows_its_own_lines_and_those_of_the_engine() -> None:
    text = "from mini_vllm.block_pool import BlockPool\n\nBlockPool(4).get_new_blocks(9)"
    lines = call("run_cell", text)["error"].splitlines()
    assert lines[:3] == [
        "Traceback (most recent call last):",
        '  File "cell.py", line 3, in <module>',
        "    BlockPool(4).get_new_blocks(9)",
    ]
    assert '  File "mini_vllm/block_pool.py", line' in "\n".join(lines)
    assert lines[-1] == "ValueError: cannot take 9 blocks, 3 are free"
    assert call("run_cell", "1 +")["error"].splitlines()[0] == '  File "cell.py", line 1'


@pytest.mark.slow
def test_a_lab_is_graded_on_a_text_that_is_in_no_file() -> None:
    lab = find_lab("02.1")
    before = lab.mine.exists() and lab.mine.read_bytes()
    stub, solution = source.render_stub(lab), source.render_solution(lab)
    assert {result["outcome"] for result in call("grade", lab.id, stub)} == {"todo"}
    assert {result["outcome"] for result in call("grade", lab.id, solution)} == {"passed"}
    wrong = solution.replace("ids = []", "ids = [1 / 0]")
    red = next(result for result in call("grade", lab.id, wrong) if result["message"])
    assert "your line  line " in red["message"]
    assert "ids = [1 / 0]" in red["message"]
    assert "Python cannot read it" in call("grade", lab.id, "def (")[0]["message"]
    assert (lab.mine.exists() and lab.mine.read_bytes()) == before


@pytest.mark.nightly
def test_a_lab_is_graded_again_on_an_engine_that_is_read_again() -> None:
    """The oracle of 05.6 (labkit.testing.drafting) calls the engine: that of this time, and not of the last."""
    lab = find_lab("05.6")
    twice = "import sys; from labkit.web.book import grade; [_, b] = [grade(*sys.argv[1:]) for _ in range(2)]; print(b)"
    command = [sys.executable, "-c", twice, lab.id, source.render_solution(lab)]
    said = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout
    assert {result["outcome"] for result in json.loads(said)} == {"passed"}


@pytest.mark.slow
def test_a_lab_of_which_a_test_did_not_come_back_is_graded_up_to_it() -> None:
    solution = source.render_solution(find_lab("02.1"))
    names = [result["test"] for result in call("grade", "02.1", solution)]
    results = call("grade", "02.1", solution, "", names[4])
    assert [result["test"] for result in results] == names
    before, hung, after = results[:4], results[4], results[5:]
    assert {result["outcome"] for result in before} == {"passed"}
    assert {(result["outcome"], result["message"]) for result in after} == {
        ("not run", f"{names[4]} did not come back.")
    }
    assert hung["outcome"] == "hang"
    assert "it did not within the time\n  your part  your text: FreeKVCacheBlockQueue" in hung["message"]
    (not_loaded,) = call("grade", "02.1", solution, "", web.LOADING)
    assert "does not come to its end" in not_loaded["message"]


def test_the_first_lab_grades_one_function_as_the_watcher_does() -> None:
    """The page's first lab: one function of two. It names the tests that need no more than that function, which are
    those that `lab watch` has green when that function alone is written.
    """
    first = (ROOT / "docs" / "first-lab.md").read_text(encoding="utf-8")
    ((lab, only),) = re.findall(r'data-lab="([\d.]+)" data-only="([\w ]+)"', first)
    stub = source.render_stub(find_lab(lab))
    written = stub.replace(f'todo("{lab}")', "return min(num_new_tokens, token_budget)", 1)
    red, green = call("grade", lab, stub, only), call("grade", lab, written, only)
    watched = [result for result in call("grade", lab, written) if result["outcome"] != "todo"]
    assert [result["test"] for result in watched] == [result["test"] for result in green]
    assert {result["test"].partition("[")[0] for result in green} == set(only.split())
    assert {result["outcome"] for result in red} == {"todo"}
    assert {result["outcome"] for result in green} == {"passed"}
