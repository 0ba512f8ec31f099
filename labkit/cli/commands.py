"""What each command of `lab` does; every function returns the exit status."""

import difflib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from labkit.cli import beside
from labkit.compare import behaviour
from labkit.grade import confined, isolated
from labkit.grade.runner import NOT_GRADED, PASSED, Result, is_begun, nearest_first, one_line, run_lab, why_not_graded
from labkit.labs import progress, source
from labkit.labs.catalog import SYMBOLS, VLLM, Lab, LabkitError, find_lab, labs, phases
from labkit.labs.evidence import tell
from labkit.labs.implementations import OUTLINE, make_mine, other_ways, part_of, remember_stub, stub_has_changed
from labkit.web import page
from mini_vllm.errors import shown
from mini_vllm.observe.files import write_file

LEVELS = ("a question", "the invariant", "the shape")
BETWEEN = "\n\x1f\n"  # stands between the lines for a merge, so that changes of neighbouring lines do not touch


def screen() -> Console:
    return Console(highlight=False, soft_wrap=True)


def select(what: Sequence[str]) -> list[Lab]:
    """The labs of ids and phases ("03.2", "03", "phase-03-..."); all if none is named. Errors: LabkitError."""
    chosen = []
    for text in what:
        phase_id = text.removeprefix("phase-")[:2]
        if "." in text:
            chosen.append(find_lab(text))
        elif found := [lab for phase in phases() if phase.id == phase_id for lab in phase.labs]:
            chosen += found
        else:
            raise LabkitError(f"There is no lab or phase {shown(text)}. `lab` lists them.")
    return chosen or list(labs())


def grade_mine(lab: Lab, share: float = 1.0, grader: isolated.Grader | None = None) -> list[Result]:
    """The learner's file of a lab, graded and recorded. share: of the random cases; a part of them is not recorded."""
    make_mine(lab)
    notice_the_stub(lab)
    text = progress.fingerprint(lab.mine)  # before: the learner may save again meanwhile
    results = grade_file(lab, lab.mine, silent=False, share=share, grader=grader)
    if share == 1.0:
        progress.record_results(lab.id, results, len(results), text)
    return results


def grade_file(lab: Lab, file: Path, **how: Any) -> list[Result]:
    """Grade a file as a lab's answer, in a process of its own. how: as isolated.grade() takes it."""
    return run_lab(lab, []) if why_not_graded(lab) else isolated.grade(lab, file, **how)


# --- seeing -------------------------------------------------------------------------------------------------------


def status() -> int:
    """The table: done, next, minutes, last run."""
    data = progress.read()
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("lab", "", "state", "min", "last run"):
        table.add_column(column)
    following = next_lab()
    for lab in labs():
        known = data.get(lab.id, {})
        state = f"{known['passed']} of {known['total']}" if known.get("total") else ""
        if progress.is_done(lab.id, data):
            state = f"[green]done[/] {state}"
        elif lab == following:
            state = f"[yellow]next[/] {state}"
        elif is_begun(lab, lab.mine):
            state = f"begun {state}"
        if why_not_graded(lab):
            state = NOT_GRADED
        table.add_row(lab.id, lab.title, state, str(lab.minutes), known.get("when", "")[:10])
    out = screen()
    out.print(table)
    out.print("\n" + what_next())
    return 0


def next_lab() -> Lab | None:
    """The first lab that is not done, of the phase that was graded last; then of the phases after it, and before it.

    A phase whose first lab cannot be graded here comes behind the other phases: what is left of it does not begin at 0.
    """
    data, every = progress.read(), list(phases())
    when = [max((data.get(lab.id, {}).get("when", "") for lab in phase.labs), default="") for phase in every]
    start = when.index(max(when)) if when else 0
    turns = sorted(every[start:] + every[:start], key=lambda phase: bool(why_not_graded(phase.labs[0])))
    in_turn = [lab for phase in turns for lab in phase.labs]
    return next((lab for lab in in_turn if not progress.is_done(lab.id, data) and not why_not_graded(lab)), None)


def what_next() -> str:
    """Where to go on, in a line; the file is made if need be."""
    lab = next_lab()
    if lab is None:
        return "Every lab that can be graded here is done. `lab run 03 --mine=all` runs the engine on all of it."
    make_mine(lab)
    return go_on(lab)


def go_on(lab: Lab) -> str:
    """What to do in a lab that is not done, in a line."""
    name = first_unwritten(lab)
    return (
        f"Next: {f'{name} in ' if name else ''}{lab.typed}, then: lab watch {lab.id} (or for help: lab hint {lab.id})"
    )


def first_unwritten(lab: Lab) -> str:
    """The first function of the learner's file that is not written yet; "" if all are, or if it cannot be read."""
    with suppress(LabkitError):
        tree = source.parse(lab.mine)
        missing = source.unwritten(tree)
        return next((name for name, _ in source.functions_of(tree) if name in missing), "")
    return ""


def test(what: Sequence[str], every_message: bool) -> int:
    """Grade once."""
    red = []
    for lab in select(what):
        results = grade_mine(lab)
        show(results, lab, lab.mine, every_message)
        red += [] if is_green(results) else [lab]
    unfinished = next((lab for lab in red if not why_not_graded(lab)), None)
    print(go_on(unfinished) if unfinished else what_next())
    return int(bool(red))


def show(results: Sequence[Result], lab: Lab, file: Path, every_message: bool = False) -> None:
    """The first message, or all; then one line. file: what was graded."""
    red = nearest_first(results)
    for result in red if every_message else red[:1]:
        print(f"\n--- {lab.id} {result.test}\n{result.message}")
    if len(red) > 1 and not every_message:
        print(f"({len(red) - 1} more are red; `lab test {lab.id} --all` explains each)")
    print(one_line(lab, results, file), flush=True)


def watch(lab: str | None) -> int:
    """Grade a lab each time its file is saved."""
    from labkit.cli import watching

    return watching.watch(lab)


def is_green(results: Sequence[Result]) -> bool:
    return all(result.outcome == PASSED for result in results)


def hint(lab: str, level: int | None) -> int:
    """The next hint, or that of a level."""
    level = show_hint(find_lab(lab), level)
    more = f"lab hint {lab} gives the next one" if level < 3 else f"lab diff {lab} --give-up shows the reference"
    print(f"\nThen: lab watch {lab}; {more}.")
    return 0


def show_hint(lab: Lab, level: int | None = None) -> int:
    """Print the next hint, or that of a level. Returns its level. Errors: LabkitError for a level that is not there."""
    seen = progress.read().get(lab.id, {}).get("hints", 0)
    level = level or min(seen + 1, 3)
    sections = (lab.folder / "hints.md").read_text(encoding="utf-8").split("\n## ")[1:]
    if len(sections) < level:
        raise LabkitError(f"lab {lab.id} has {len(sections)} hints, not {level}.")
    progress.record(lab.id, hints=max(seen, level))
    print(f"Hint {level} of 3 ({LEVELS[level - 1]})\n\n" + sections[level - 1].partition("\n")[2].strip())
    return level


def evidence(lab: str, case: str | None) -> int:
    """What an engine with a bug left behind, in a lab of debugging."""
    chosen = find_lab(lab)
    if not chosen.cases or (case is not None and case not in chosen.cases):
        raise LabkitError(f"Lab {lab} has no case {shown(case)}." if chosen.cases else f"Lab {lab} has no evidence.")
    for each in [case] if case else chosen.cases:
        tell(chosen, each, screen())
    return 0


def diff(
    lab: str, give_up: bool = False, html: str | None = None, whole: bool = False, side_by_side: bool = False
) -> int:
    """The learner's file beside the reference: what the contract names, then the decisions on the same arrivals.

    html: where to write these decisions as a page; whole: all of both files.
    """
    chosen = find_lab(lab)
    make_mine(chosen)
    if not progress.is_done(lab, progress.read()):
        if not give_up:
            raise LabkitError(
                f"Lab {lab} is not done. `lab hint {lab}` helps; `lab diff {lab} --give-up` shows the reference and\n"
                "records that it did."
            )
        progress.record(lab, gave_up=True)
    reference, what = source.render_solution(chosen), "the reference"
    if outline := other_ways(chosen).get(OUTLINE):
        reference, what = outline.code, "an answer to this lab"
        print("The engine's own part is longer than this answer: later labs of the phase add rules to it.\n")
    show_beside(chosen, reference, what, whole=whole, side_by_side=side_by_side)
    part = part_of(chosen, "mine")
    if part and behaviour.decides(part) and not part.unwritten:
        print("\n" + behaviour.summary([part]))
        if html:
            print(page.write(Path(html), chosen, [part]))
    elif html:
        raise LabkitError(f"Lab {lab}: no decisions to draw. Its file is not written yet, or it makes none.")
    print("\nThe same in vLLM:", *vllm_links(chosen), sep="\n  ")
    return 0


def show_beside(lab: Lab, reference: str, what: str, *, whole: bool, side_by_side: bool) -> None:
    """The text of the learner's file beside another answer, and what is left out of both."""
    mine = source.read(lab.mine)
    if mine == reference:
        print(f"Your file is {what}, letter by letter.")
        return
    (ours, rest), (theirs, helpers) = (
        (text, []) if whole else beside.of_contract(lab, text) for text in (mine, reference)
    )
    if ours == theirs:
        print(f"What the contract names is as in {what}, letter by letter.")
    elif side_by_side:
        screen().print(beside.side_by_side(ours, theirs, what))
    else:
        print(beside.unified(ours, theirs, what))
    left_out = [f"{whose}: {', '.join(names)}" for whose, names in ((what, helpers), ("your file", rest)) if names]
    if left_out:
        print(f"\n`lab diff {lab.id} --all` also shows what the contract does not name. In {'; in '.join(left_out)}.")


def vllm_links(lab: Lab) -> list[str]:
    """Where the lab's symbols stand in the pinned release, by the index that proves they exist."""
    lines = json.loads(SYMBOLS.read_text(encoding="utf-8"))
    links = []
    for symbol in lab.vllm:
        module, _, name = symbol.partition(":")
        place = f"{module.replace('.', '/')}.py#L{lines[module][name]}"
        links.append(f"{name:48} https://github.com/vllm-project/vllm/blob/v{VLLM}/{place}")
    return links


# --- changing -----------------------------------------------------------------------------------------------------


def backup(file: Path) -> Path:
    """A copy beside the file, under a name that is free."""
    names = (file.with_name(f"{file.name}.bak{number}") for number in range(1, 10_000))
    target = next(name for name in names if not name.exists())
    shutil.copyfile(file, target)
    return target


def reset(lab: str) -> int:
    """A new mine.py; the old one is kept."""
    chosen = find_lab(lab)
    if chosen.mine.exists():
        print(f"Your file is kept as {backup(chosen.mine).name}.")
        chosen.mine.unlink()
    make_mine(chosen)
    print(f"{chosen.typed} is the stub again.")
    return 0


def adopt(lab: str) -> int:
    """What was written into stub.py becomes mine.py."""
    chosen = find_lab(lab)
    text = source.read(chosen.stub)
    if text == source.render_stub(chosen):
        raise LabkitError(f"stub.py of lab {lab} is untouched; nothing to move.")
    if chosen.mine.exists() and source.read(chosen.mine) != source.render_stub(chosen):
        print(f"Your mine.py is kept as {backup(chosen.mine).name}.")
    write_file(chosen.mine, text)
    write_file(chosen.stub, source.render_stub(chosen))
    remember_stub(chosen)
    print(f"Moved to {chosen.typed}; stub.py is restored.")
    return 0


def notice_the_stub(lab: Lab) -> None:
    """People edit stub.py, because the course says "implement the stub"; and a release may bring another one."""
    if stub_has_changed(lab):
        print(f"The stub of lab {lab.id} has changed since you began. `lab update {lab.id}` merges it into your file.")
    if source.read(lab.stub) != source.render_stub(lab):
        print(
            f"stub.py of lab {lab.id} was edited, and mine.py is what is graded. `lab adopt {lab.id}` moves your work."
        )


def update(lab: str | None) -> int:
    """What a newer release changed in a stub comes into mine.py; what the learner wrote stays."""
    for chosen in [find_lab(lab)] if lab else list(labs()):
        if not chosen.mine.exists():
            continue
        if not chosen.base.exists():
            print(f"{chosen.id}: your file was made elsewhere, from which stub is not known; compare it with stub.py.")
        elif stub_has_changed(chosen):
            print(f"{chosen.id}: " + merge_stub(chosen))
        remember_stub(chosen)
    return 0


def merge_stub(lab: Lab) -> str:
    """Merge the change of the stub into mine.py, and say what was done. Errors: LabkitError without git."""
    if shutil.which("git") is None:
        raise LabkitError("lab update merges with git, which is not installed here.")
    texts = (source.read(lab.mine), source.read(lab.base), source.render_stub(lab))
    newline = "\r\n" if b"\r\n" in lab.mine.read_bytes() else "\n"
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("mine", "base", "stub")]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text.replace("\n", BETWEEN), encoding="utf-8", newline="\n")
        call = ["git", "merge-file", "-p", "--ours", *map(str, files)]
        merged = subprocess.run(call, capture_output=True, check=True).stdout.decode().replace(BETWEEN, "\n")
        conflicts = subprocess.run([each for each in call if each != "--ours"], capture_output=True).returncode
    kept = backup(lab.mine)
    write_file(lab.mine, merged.replace("\n", newline))
    said = f"the stub's changes are in your file; as it was, it is kept as {kept.name}."
    if conflicts:
        said += f"\n{conflicts} of them touch lines that you changed: yours were left. What has changed in the stub:\n"
        said += "\n".join(difflib.unified_diff(texts[1].splitlines(), texts[2].splitlines(), lineterm="", n=1))
    return said


# --- for the whole ------------------------------------------------------------------------------------------------


def run(phase: str, prompt: str | None, mine: str) -> int:
    """The engine answers on the learner's parts."""
    from labkit.cli import running

    return running.run(phase, prompt, mine)


def grade(what: Sequence[str], as_json: bool, folder: str | None) -> int:
    """Every test of every lab, for a teacher; exit status 0 if all were run and are green.

    folder: the checkout of a submission. Of it only the mine.py files are read: tests and grader are those of this one.
    """
    if folder is not None and not Path(folder).is_dir():
        raise LabkitError(f"{shown(folder)} is no folder: --from takes the checkout of a submission.")
    report = {}
    for lab in select(what):
        file = Path(folder, lab.typed) if folder else lab.mine
        handed_in = os.path.lexists(file)
        results = grade_file(lab, file if handed_in else lab.stub)
        report[lab.id] = {
            "title": lab.title,
            "minutes": lab.minutes,
            "handed_in": handed_in,
            "passed": sum(result.outcome == PASSED for result in results),
            "total": len(results),
            "tests": {result.test: result.outcome for result in results},
            "messages": {result.test: result.message for result in results if result.message},
        }
        if not as_json:
            show(results, lab, file)
    if as_json:
        print(json.dumps(report, indent=1))
    return int(any(entry["passed"] != entry["total"] for entry in report.values()))


def doctor() -> int:
    """Python, torch, Triton, GPU, and what will not be graded here."""
    print(f"Python {platform.python_version()} on {platform.system()}")
    for package in ("pytest", "rich", "watchfiles", "torch", "triton"):
        print(f"{package:11} {'here' if find_spec(package) else 'not installed'}")
    if find_spec("torch"):
        import torch

        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none, kernels are interpreted on the CPU"
        print(f"{'GPU':11} {gpu}")
    reasons = list(filter(None, map(why_not_graded, labs())))
    print("\n".join(reasons) if reasons else "Every lab can be graded here.")
    if not confined.HAS_LIMITS:
        print("This system has no limit for a process's memory: a file that takes all of it is not stopped.")
    return 0
