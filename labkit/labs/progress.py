"""What a learner has done so far, in .lab/progress.json: a file that may be deleted at any time."""

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from labkit.grade.runner import NOT_GRADED, PASSED, Result
from labkit.labs import source
from labkit.labs.catalog import ROOT, Lab, LabkitError
from mini_vllm.errors import is_int
from mini_vllm.observe.files import write_file

FILE = ROOT / ".lab" / "progress.json"


def read(file: Path = FILE) -> dict[str, dict[str, Any]]:
    """By lab id: passed, total, green, hints, gave_up, when. A broken file or entry counts as none."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return {lab_id: known for lab_id, known in data.items() if _is_whole(known)} if isinstance(data, dict) else {}


def _is_whole(known: object) -> bool:
    return (
        isinstance(known, dict)
        and all(is_int(known.get(name, 0), 0) for name in ("passed", "total", "hints"))
        and ("passed" in known) == ("total" in known)
        and isinstance(known.get("when", ""), str)
    )


def record(lab_id: str, file: Path = FILE, **changes: Any) -> None:
    """Change what is known of a lab."""
    data = read(file)
    data.setdefault(lab_id, {}).update(changes)
    file.parent.mkdir(exist_ok=True)
    write_file(file, json.dumps(data, indent=1))


def record_results(lab_id: str, results: Sequence[Result], num_tests: int, fingerprint: str, file: Path = FILE) -> None:
    """How many tests are green; what was not graded here changes nothing.

    num_tests: how many the lab has. Of a run of some of them it is recorded that it was, and no more. fingerprint: of
    what was graded; kept if all is green.
    """
    if any(result.outcome == NOT_GRADED for result in results):
        return
    changes: dict[str, Any] = {"when": datetime.now().isoformat(timespec="seconds")}
    if len({result.test for result in results}) == num_tests:
        changes |= {"passed": sum(result.outcome == PASSED for result in results), "total": len(results)}
        if changes["passed"] == changes["total"]:
            changes["green"] = fingerprint
    record(lab_id, file, **changes)


def fingerprint(file: Path) -> str:
    """A hash of a learner's file; "" if there is none that can be read."""
    try:
        return hashlib.sha256(source.read(file).encode()).hexdigest()[:16]
    except LabkitError:
        return ""


def has_changed(lab: Lab, data: dict[str, dict[str, Any]]) -> bool:
    """Whether the learner's file is another one than in its last green run."""
    green = data.get(lab.id, {}).get("green")
    return green is not None and green != fingerprint(lab.mine)


def is_done(lab_id: str, data: dict[str, dict[str, Any]]) -> bool:
    known = data.get(lab_id, {})
    return bool(known.get("total")) and known.get("passed") == known.get("total")
