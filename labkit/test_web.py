"""What a page asks for, in a process of its own: it takes the engine out of sys.modules."""

import json
import subprocess
import sys
from typing import Any

import pytest

from labkit import source
from labkit.catalog import ROOT, find_lab

CALL = "import json, sys; from labkit import web; print(getattr(web, sys.argv[1])(*sys.argv[2:]))"


def call(*arguments: str) -> Any:
    """A function of labkit.web, on its arguments."""
    command = [sys.executable, "-c", CALL, *arguments]
    return json.loads(subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", {}),
        ("x = 1", {}),
        ("x = 1\nx + 1", {"text": "2"}),
        ("None", {}),
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


def test_a_lab_is_graded_on_a_text_that_is_in_no_file() -> None:
    lab = find_lab("02.1")
    before = lab.mine.exists() and lab.mine.read_bytes()
    stub, solution = source.render_stub(lab), source.render_solution(lab)
    assert {result["outcome"] for result in call("grade", lab.id, stub)} == {"todo"}
    assert {result["outcome"] for result in call("grade", lab.id, solution)} == {"passed"}
    wrong = solution.replace("ids = []", "ids = [1 / 0]")
    red = next(result for result in call("grade", lab.id, wrong) if result["message"])
    assert "your line  mine.py:" in red["message"]
    assert "ids = [1 / 0]" in red["message"]
    assert "Python cannot read the file" in call("grade", lab.id, "def (")[0]["message"]
    assert (lab.mine.exists() and lab.mine.read_bytes()) == before
