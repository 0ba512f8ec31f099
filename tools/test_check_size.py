"""The size check counts what it says it counts, and every limit can be broken."""

from pathlib import Path

import pytest

from tools import check_size
from tools.check_size import (
    MAX_CLASS_LINES,
    MAX_FUNCTION,
    MAX_HEART,
    MAX_MODEL_TOKENS,
    MAX_OTHER_LINES,
    MAX_TOKENS,
    FileSize,
    ScopeSize,
    broken_limits,
    measure_others,
    measure_package,
    measure_source,
)

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
        "box.py",
        33,
        9,
        [
            ScopeSize("Box", 31, 8, is_class=True),
            ScopeSize("Box.text", 23, 6),
            ScopeSize("Box.text.inner", 9, 3),
        ],
    )


def test_a_longer_line_counts_as_much_as_the_same_in_several() -> None:
    long = "x = f(a, b, c)\n"
    short = "x = f(\n    a,\n    b,\n    c\n)\n"
    assert measure_source("f.py", long).num_tokens == measure_source("f.py", short).num_tokens == 10


def test_functions_under_a_condition_are_measured() -> None:
    source = "if True:\n    async def f():\n        return 1\nelse:\n    def g(): return 2\n"
    assert measure_source("f.py", source).scopes == [ScopeSize("f", 8, 2), ScopeSize("g", 7, 1)]


def test_a_file_of_documentation_only_has_no_tokens() -> None:
    file = measure_source("doc.py", '"""Only words."""\n\n# and a comment\n')
    assert (file.num_tokens, file.num_lines) == (0, 0)


def test_tests_and_conftest_are_not_measured(tmp_path: Path) -> None:
    for name in ("scheduler.py", "test_scheduler.py", "conftest.py", "models/llama.py", "models/test_llama.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1\n")
    assert [file.path for file in measure_package(tmp_path)] == ["models/llama.py", "scheduler.py"]


def test_other_languages_count_in_lines(tmp_path: Path) -> None:
    (tmp_path / "attention").mkdir()
    (tmp_path / "attention" / "kernel.c").write_text("int f(void);\n\n  \nint g(void);\n")
    (tmp_path / "attention" / "kernel.so").write_text("x\n")
    assert measure_others(tmp_path) == [FileSize("attention/kernel.c", 0, 2, [])]


def of_room(room: str, num_tokens: int) -> FileSize:
    return FileSize("a.py" if room == "." else f"{room}/layers/a.py", num_tokens, 1, [])


@pytest.mark.parametrize(
    ("at_the_limit", "above_it", "message"),
    [
        (
            [FileSize("engine/core.py", 6_000, 1, []), FileSize("scheduler.py", 4_000, 1, [])],
            [FileSize("engine/core.py", 6_000, 1, []), FileSize("scheduler.py", 4_001, 1, [])],
            "the heart has 10001 tokens",
        ),
        *(
            ([of_room(room, limit)], [of_room(room, limit + 1)], f"the room {room} has {limit + 1} tokens")
            for room, limit in MAX_TOKENS.items()
        ),
        (
            [FileSize("models/m.py", MAX_MODEL_TOKENS, 1, [])],
            [FileSize("models/m.py", MAX_MODEL_TOKENS + 1, 1, [])],
            f"models/m.py has {MAX_MODEL_TOKENS + 1} tokens",
        ),
        (
            [FileSize("a.py", 9, 1, [ScopeSize(f"f{i}", 9, 41 if i == 0 else 40) for i in range(20)])],
            [FileSize("a.py", 9, 1, [ScopeSize(f"f{i}", 9, 41 if i == 0 else 40) for i in range(19)])],
            "94.7% of the functions",
        ),
        ([], [of_room("more", 1)], "the room more has 1 tokens, the limit is 0"),
        (
            [FileSize("serving/page.html", 0, MAX_OTHER_LINES["serving"], [])],
            [FileSize("serving/page.html", 0, MAX_OTHER_LINES["serving"] + 1, [])],
            "lines of other languages",
        ),
        ([], [FileSize("engine/page.js", 0, 1, [])], "the room engine has 1 lines of other languages, the limit is 0"),
        (
            [FileSize("a.py", 9, 1, [ScopeSize("f", MAX_FUNCTION, 9)])],
            [FileSize("a.py", 9, 1, [ScopeSize("f", MAX_FUNCTION + 1, 9)])],
            f"a.py: f has {MAX_FUNCTION + 1} tokens",
        ),
        (
            [FileSize("a.py", 9, 1, [ScopeSize("A", 9_999, MAX_CLASS_LINES, is_class=True)])],
            [FileSize("a.py", 9, 1, [ScopeSize("A", 9_999, MAX_CLASS_LINES + 1, is_class=True)])],
            f"a.py: A has {MAX_CLASS_LINES + 1} lines",
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
    source.write_text("x = 1; y\n" * (MAX_HEART // 5))
    assert check_size.main() == 0
    source.write_text("x = 1; y\n" * (MAX_HEART // 5) + "x\n")
    assert check_size.main() == 1
    assert f"TOO LONG: the heart has {MAX_HEART + 1} tokens" in capsys.readouterr().err


def test_a_package_of_too_many_entries_is_refused(tmp_path: Path) -> None:
    for i in range(34):
        (tmp_path / f"m{i}.py").touch()
    (tmp_path / "room").mkdir()
    (tmp_path / "__pycache__").mkdir()
    assert broken_limits([], len(check_size.entries_of(tmp_path))) == []
    (tmp_path / "one_more.py").touch()
    assert broken_limits([], len(check_size.entries_of(tmp_path))) == ["the package has 36 entries, the limit is 35"]


@pytest.mark.slow
def test_every_file_of_the_heart_is_there() -> None:
    measured = {file.path for file in measure_package(check_size.ROOT / "mini_vllm")}
    assert measured >= {*check_size.HEART}
