"""What each command of `lab` does; every function returns the exit status."""

import difflib
import json
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

from labkit import behaviour, page, progress, source
from labkit.catalog import SYMBOLS, VLLM, Lab, LabkitError, find_lab, labs, phases
from labkit.graft import Part
from labkit.implementations import make_mine, part_of, remember_stub, stub_has_changed
from labkit.runner import FAILED, NO_CONCEPT, NOT_GRADED, PASSED, Result, one_line, prepare, run_lab, why_not_graded
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


def grade_mine(lab: Lab) -> list[Result]:
    """The learner's file of a lab, graded and recorded."""
    make_mine(lab)
    notice_the_stub(lab)
    results = grade_file(lab, lab.mine)
    if results[0].concept is not NO_CONCEPT:  # else nothing could be graded
        progress.record_results(lab.id, results)
    return results


def grade_file(lab: Lab, file: Path) -> list[Result]:
    """Grade a file as a lab's answer. One that cannot be graded is one red result."""
    if why_not_graded(lab):
        return run_lab(lab, [])
    prepare(lab)
    try:
        return run_lab(lab, [Part(lab, file)])
    except LabkitError as error:
        return [Result(lab.id, "", NO_CONCEPT, FAILED, str(error), 0.0)]


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
        if why_not_graded(lab):
            state = NOT_GRADED
        table.add_row(lab.id, lab.title, state, str(lab.minutes), known.get("when", "")[:10])
    out = screen()
    out.print(table)
    out.print("\n" + what_next())
    return 0


def next_lab() -> Lab | None:
    """From the one graded last on, the first that is not done and can be graded here."""
    data, every = progress.read(), list(labs())
    last = max(every, key=lambda lab: data.get(lab.id, {}).get("when", ""))
    start = every.index(last) if last.id in data else 0
    in_turn = every[start:] + every[:start]
    return next((lab for lab in in_turn if not progress.is_done(lab.id, data) and not why_not_graded(lab)), None)


def what_next() -> str:
    """Where to go on, in a line; the file is made if need be."""
    lab = next_lab()
    if lab is None:
        return "Every lab that can be graded here is done. `lab run 03 --mine=all` runs the engine on all of it."
    make_mine(lab)
    return f"Next: {lab.typed}, then: lab watch {lab.id}"


def test(what: Sequence[str], every_message: bool) -> int:
    """Grade once."""
    worst = 0
    for lab in select(what):
        results = grade_mine(lab)
        show(results, lab, every_message)
        worst |= any(result.outcome != PASSED for result in results)
    if not worst:
        print(what_next())
    return worst


def show(results: Sequence[Result], lab: Lab, every_message: bool = False) -> None:
    """The first message, or all; then one line."""
    red = [result for result in results if result.message]
    for result in red if every_message else red[:1]:
        print(f"\n--- {lab.id} {result.test}\n{result.message}")
    print(one_line(lab, results))


def watch(lab: str | None) -> int:
    """Grade a lab each time its file is saved, in this process: imports are paid once."""
    from watchfiles import watch as changes_of

    chosen = find_lab(lab) if lab else next_lab()
    if chosen is None:
        print(what_next())
        return 0
    print(f"Watching {chosen.typed}; Ctrl-C ends.", flush=True)
    make_mine(chosen)
    show(grade_mine(chosen), chosen)
    for _ in changes_of(chosen.folder, debounce=50, step=20, raise_interrupt=False):
        start = time.perf_counter()
        results = grade_mine(chosen)
        show(results, chosen)
        print(f"({time.perf_counter() - start:.2f} s)", flush=True)
        if all(result.outcome == PASSED for result in results):
            print(f"`lab diff {chosen.id}` shows the reference beside yours. {what_next()}", flush=True)
    return 0


def hint(lab: str, level: int | None) -> int:
    """The next hint, or that of a level."""
    chosen = find_lab(lab)
    seen = progress.read().get(lab, {}).get("hints", 0)
    level = level or min(seen + 1, 3)
    sections = (chosen.folder / "hints.md").read_text(encoding="utf-8").split("\n## ")[1:]
    if len(sections) < level:
        raise LabkitError(f"lab {lab} has {len(sections)} hints, not {level}.")
    progress.record(lab, hints=max(seen, level))
    print(f"Hint {level} of 3 ({LEVELS[level - 1]})\n\n" + sections[level - 1].partition("\n")[2].strip())
    return 0


def diff(lab: str, give_up: bool, html: str | None) -> int:
    """The learner's file beside the reference: the text, then the decisions on the same arrivals.

    html: where to write these decisions as a page.
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
    mine, reference = source.read(chosen.mine), source.render_solution(chosen)
    lines = difflib.unified_diff(mine.splitlines(), reference.splitlines(), "mine.py", "the reference", lineterm="")
    print("\n".join(lines) or "Your file is the reference, letter by letter.")
    part = part_of(chosen, "mine")
    if part and behaviour.decides(part) and not part.unwritten:
        print("\n" + behaviour.summary([part]))
        if html:
            print(page.write(Path(html), chosen, [part]))
    elif html:
        raise LabkitError(f"Lab {lab}: no decisions to draw. Its file is not written yet, or it makes none.")
    print("\nThe same in vLLM:", *vllm_links(chosen), sep="\n  ")
    return 0


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
    mine = lab.mine.read_bytes()
    newline = "\r\n" if b"\r\n" in mine else "\n"
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("mine", "base", "stub")]
        texts = (source.read(lab.mine), source.read(lab.base), source.render_stub(lab))
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
    from labkit import running

    return running.run(phase, prompt, mine)


def grade(what: Sequence[str], as_json: bool, folder: str | None) -> int:
    """Every test of every lab, for a teacher; exit status 0 if all is green.

    folder: somebody's checkout. Of it only the mine.py files are read: tests and grader are those of this one.
    """
    if folder is not None and not Path(folder).is_dir():
        raise LabkitError(f"{shown(folder)} is no folder: --from takes somebody's checkout.")
    report = {}
    for lab in select(what):
        file = Path(folder, lab.typed) if folder else lab.mine
        results = grade_file(lab, file if file.exists() else lab.stub)
        report[lab.id] = {
            "title": lab.title,
            "minutes": lab.minutes,
            "handed_in": file.exists(),
            "passed": sum(result.outcome == PASSED for result in results),
            "total": len(results),
            "tests": {result.test: result.outcome for result in results},
        }
        if not as_json:
            show(results, lab)
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
    return 0
