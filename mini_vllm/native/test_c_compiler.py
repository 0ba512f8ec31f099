"""How a C file becomes a library: built, kept, found again, and what is said where that
cannot be.
"""

import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from mini_vllm.attention import get_backend
from mini_vllm.errors import InvalidParameterError
from mini_vllm.native import c_compiler
from mini_vllm.native.c_compiler import CannotBuildError, load_library

CPU = torch.device("cpu")
COMPILER = c_compiler.find_compiler()
NEEDS_COMPILER = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler here")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small C file; cache and temporary folder are empty ones."""
    file = tmp_path / "answers.c"
    file.write_text("int answer(void) { return 42; }\n", encoding="utf-8")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.delenv("CC", raising=False)
    yield file
    c_compiler.find_library.cache_clear()


def built(tmp_path: Path, folder: str = "cache") -> list[Path]:
    return sorted(path for path in (tmp_path / folder).rglob("*") if path.is_file())


@NEEDS_COMPILER
def test_a_library_is_built_once_and_found_without_a_compiler(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_library(source).answer() == 42
    (library,) = built(tmp_path)
    assert library.parent == tmp_path / "cache" / "mini_vllm"
    assert not library.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    monkeypatch.setattr(c_compiler, "build", lambda *_: pytest.fail("built again"))
    assert load_library(source).answer() == 42
    monkeypatch.setenv("PATH", "")
    assert load_library(source).answer() == 42


@NEEDS_COMPILER
def test_another_source_or_another_processor_is_another_library(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_library(source)
    source.write_text("int answer(void) { return 43; }\n", encoding="utf-8")
    assert load_library(source).answer() == 43
    monkeypatch.setattr(c_compiler, "processor", lambda: b"another")
    assert load_library(source).answer() == 43
    assert len(built(tmp_path)) == 3


@pytest.mark.nightly
@NEEDS_COMPILER
def test_processes_may_build_at_once(source: Path, tmp_path: Path) -> None:
    code = (
        "from mini_vllm.native.c_compiler import *; "
        f"print(load_library(Path({str(source)!r})).answer())"
    )
    command = [sys.executable, "-c", code]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0] for process in processes] == ["42\n"] * 3
    assert all(path.suffix == ".so" for path in built(tmp_path))


@NEEDS_COMPILER
@pytest.mark.parametrize(
    "damage", [lambda content: content[:1000], lambda content: content + b"\0", lambda _: b""]
)
def test_a_broken_library_is_built_again(
    source: Path, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    load_library(source)
    (library,) = built(tmp_path)
    library.unlink()  # the one that is loaded keeps its memory
    load_library(source)
    content = library.read_bytes()
    library.unlink()
    library.write_bytes(damage(content))
    assert load_library(source).answer() == 42
    assert library.read_bytes() == content


@NEEDS_COMPILER
def test_a_home_that_cannot_be_written_falls_back_to_a_temporary_folder(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(source))  # a file: no folder can be made in it
    assert load_library(source).answer() == 42
    (library,) = built(tmp_path, "temporary")
    monkeypatch.setattr(c_compiler, "build", lambda *_: pytest.fail("built again"))
    assert load_library(source).answer() == 42
    assert library.parent.stat().st_mode & 0o777 == 0o700


@NEEDS_COMPILER
def test_what_another_user_could_have_written_is_not_loaded(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "mini_vllm"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert load_library(source).answer() == 42
    assert built(tmp_path) == []
    assert len(built(tmp_path, "temporary")) == 1


@NEEDS_COMPILER
def test_a_folder_that_takes_nothing_is_named(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(c_compiler, "cache_folders", lambda: iter([source / "a", source / "b"]))
    with pytest.raises(
        CannotBuildError, match=r"answers cannot be kept or loaded: .*answers.c/a.*answers.c/b"
    ):
        load_library(source)


@NEEDS_COMPILER
def test_no_place_for_temporary_files_is_a_reason(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(source))
    with pytest.raises(CannotBuildError, match="Not a directory"):
        load_library(source)


@NEEDS_COMPILER
def test_a_compiler_without_openmp_is_asked_again_without(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert COMPILER
    wrapper = tmp_path / "cc"
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in *-fopenmp*) exit 1;; esac\nexec {COMPILER[0]} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("CC", str(wrapper))
    assert load_library(source).answer() == 42
    monkeypatch.setattr(c_compiler, "build", lambda *_: pytest.fail("built again"))
    assert load_library(source).answer() == 42


@NEEDS_COMPILER
def test_a_compiler_that_fails_is_told_in_one_line(source: Path) -> None:
    source.write_text("int answer(void) { return }\n", encoding="utf-8")
    with pytest.raises(CannotBuildError, match=r"^\w+ cannot build .*answers.c: '.*'$"):
        load_library(source)


@pytest.mark.parametrize(
    ("command", "named"), [("", r"cc, gcc, clang"), ("no-such-cc -O1", "'no-such-cc -O1'")]
)
def test_without_a_compiler_torch_attends_and_the_reason_says_what_to_install(
    command: str, named: str, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CC", command)
    c_compiler.find_library.cache_clear()
    message = rf"there is no C compiler \({named}\); install gcc or clang"
    with pytest.raises(InvalidParameterError, match=rf"'c' cannot run on cpu: {message}"):
        get_backend("c", CPU)
    assert get_backend("auto", CPU).name == "torch"
