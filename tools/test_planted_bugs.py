"""The lists of planted bugs keep up with the package: a bug that no longer applies would prove nothing."""

from pathlib import Path

import pytest

from tools.mutation import planted_bugs, planted_kernel_bugs

PLANTED = {
    *((planted_bugs.PACKAGE / f"{module}.py", old) for _, module, old, _ in planted_bugs.BUGS + planted_bugs.FAULTS),
    *((planted_bugs.PACKAGE / file, old) for file, old, _ in planted_kernel_bugs.BUGS),
}


@pytest.mark.parametrize("path", sorted({path for path, _ in PLANTED}), ids=lambda path: path.stem)
def test_a_planted_bug_has_a_place(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [old for file, old in PLANTED if file == path and old not in text] == []
