"""The size check counts what it says it counts, and every limit can be broken."""

from pathlib import Path

import pytest

from tools import check_size
from tools.check_size import FileSize, FunctionSize, broken_limits, measure_package, measure_source

SOURCE = '''\
"""Module docstring,
two lines."""

import os  # a comment behind code is code

# a comment of its own is not


class Box:
    """A docstring."""

    size: int = 0
    """An attribute's docstring."""

    @property
    def text(self) -> str:
        """Docstring."""
        # why

        def inner() -> str:
            return """a string
            of two lines"""

        return inner()
'''


def test_blank_lines_comments_and_docstrings_do_not_count() -> None:
    assert measure_source("box.py", SOURCE) == FileSize(
        "box.py", 9, [FunctionSize("Box.text", 6), FunctionSize("Box.text.inner", 3)]
    )


def test_functions_under_a_condition_are_measured() -> None:
    source = "if True:\n    async def f():\n        return 1\nelse:\n    def g(): return 2\n"
    assert measure_source("f.py", source).functions == [FunctionSize("f", 2), FunctionSize("g", 1)]


def test_a_file_of_documentation_only_has_no_source_lines() -> None:
    assert measure_source("doc.py", '"""Only words."""\n\n# and a comment\n').num_lines == 0


def test_tests_and_conftest_are_not_measured(tmp_path: Path) -> None:
    for name in ("scheduler.py", "test_scheduler.py", "conftest.py", "models/llama.py", "models/test_llama.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1\n")
    assert [file.path for file in measure_package(tmp_path)] == ["models/llama.py", "scheduler.py"]


def functions(*sizes: int) -> list[FunctionSize]:
    return [FunctionSize(f"f{index}", size) for index, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("at_the_limit", "above_it", "message"),
    [
        (
            [FileSize("engine/core.py", 700, []), FileSize("scheduler.py", 450, [])],
            [FileSize("engine/core.py", 700, []), FileSize("scheduler.py", 451, [])],
            "irreducible core has 1151",
        ),
        ([FileSize("a.py", 14_000, [])], [FileSize("a.py", 14_001, [])], "package has 14001"),
        ([FileSize("models/m.py", 150, [])], [FileSize("models/m.py", 151, [])], "models/m.py has 151"),
        (
            [FileSize("a.py", 9, functions(80, *[1] * 99))],
            [FileSize("a.py", 9, functions(81, *[1] * 99))],
            "a.py: f0 has 81 lines",
        ),
        (
            [FileSize("a.py", 9, functions(41, *[40] * 19))],
            [FileSize("a.py", 9, functions(41, *[40] * 18))],
            "94.7% of the functions",
        ),
    ],
)
def test_each_limit_holds_at_its_value_and_breaks_one_above(
    at_the_limit: list[FileSize], above_it: list[FileSize], message: str
) -> None:
    assert broken_limits(at_the_limit) == []
    (sentence,) = broken_limits(above_it)
    assert message in sentence


def test_the_exit_status_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check_size, "ROOT", tmp_path)
    (tmp_path / "mini_vllm").mkdir()
    source = tmp_path / "mini_vllm" / "scheduler.py"
    source.write_text("x = 1\n" * 1150)
    assert check_size.main() == 0
    source.write_text("x = 1\n" * 1151)
    assert check_size.main() == 1
    assert "TOO LONG: the irreducible core has 1151" in capsys.readouterr().err


def test_a_package_of_too_many_entries_is_refused(tmp_path: Path) -> None:
    for i in range(33):
        (tmp_path / f"m{i}.py").touch()
    (tmp_path / "room").mkdir()
    (tmp_path / "__pycache__").mkdir()
    assert broken_limits([], len(check_size.entries_of(tmp_path))) == []
    (tmp_path / "one_more.py").touch()
    assert broken_limits([], len(check_size.entries_of(tmp_path))) == ["the package has 35 entries, the limit is 34"]


@pytest.mark.slow
def test_every_file_of_the_core_is_there() -> None:
    measured = {file.path for file in measure_package(check_size.ROOT / "mini_vllm")}
    assert measured >= {*check_size.IRREDUCIBLE_CORE}
