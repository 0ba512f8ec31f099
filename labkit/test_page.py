"""The page of `lab diff`: two figures of one scenario."""

import json
import re
from pathlib import Path

import pytest

from labkit import behaviour, cli, commands, page
from labkit.catalog import Lab, LabkitError, find_lab
from labkit.graft import Part
from labkit.implementations import part_of

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
