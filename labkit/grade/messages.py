"""What a learner reads when a test is red, always in the same order and at most MAX_LINES long:

the idea; the invariant; the smallest state that shows it, before and after; expected against got; the learner's line;
the next step. An untouched stub gets two lines.
"""

import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from labkit.grade.watchdog import LabHang
from labkit.labs.catalog import Lab, LabkitError
from labkit.labs.graft import Part
from labkit.testing.search import Call, Difference, write
from labkit.testing.words import Concept, LabFailure, LabTodo

MAX_LINES = 25
MAX_STATE_LINES = 7
MAX_CALL_LINES = 9  # what they take is taken off the state
WIDTH = 100


def explain(error: BaseException, concept: Concept, lab: Lab, part: Part | None, test: str = "") -> str:
    """The message for one red test; part: the file that was graded, None for the reference; test: its name."""
    if isinstance(error, LabkitError):
        return str(error)
    file = part.file if part else None
    if todo := find_todo(error):
        frames = [frame for frame, _ in traceback.walk_tb(todo.__traceback__) if is_in(frame, file)]
        where = f"{short(lab, file)}" if file else "the stub"
        where = f"{frames[-1].f_code.co_qualname} in {where}" if frames else where
        return f"TODO  {todo.lab_id} {lab.title}: {where} is not written yet.\nIdea  {concept.idea}"
    law = getattr(error, "invariant", "") or concept.invariant
    lines = [concept.idea, f"{law}  {lab.invariants.get(law, '')}", ""]
    lines += describe(error, file, typed(lab.id, test, error.walked) if isinstance(error, Difference) else [])
    lines += [f"  {note}" for note in getattr(error, "__notes__", ())]
    if line := learners_line(error, file):
        lines.append(f"  your line  {line}")
    elif part:
        lines.append(f"  your part  {definitions(part)}")
    names = [symbol.partition(":")[2] for symbol in lab.vllm]
    lines.append(f"  next       lab hint {lab.id} · {lab.chapter} · vLLM: {', '.join(dict.fromkeys(names))}")
    return "\n".join(lines[:MAX_LINES])


def describe(error: BaseException, file: Path | None, calls: Sequence[str] = ()) -> list[str]:
    """State, and expected against got, of whatever went wrong. file: the learner's; calls: those of a walk, to type."""
    call = getattr(error, "call", "") or outermost_call(error, file)  # labkit.grade.notes may have found out more
    if isinstance(error, LabFailure):
        lines = ["  the calls", *shorten("\n".join(calls), MAX_CALL_LINES, keep_the_end=True)] if calls else []
        num_state_lines = min(MAX_STATE_LINES, MAX_STATE_LINES + MAX_CALL_LINES - len(lines))
        for title, text in (("before", error.before), ("after", error.after)):
            if text and not (title == "after" and calls and error.before):  # there is no room for all three
                lines += [f"  {title}", *shorten(text, num_state_lines)]
        what = f"{error.what}: {error.call}" if hasattr(error, "call") else error.what
        expected, got = clip_both(error.expected, error.got)
        return [*lines, f"  {what}", f"    expected  {expected}", f"    got       {got}"]
    if isinstance(error, AssertionError):
        said = clip(str(error) or "an assertion of the test does not hold", 400)
        return [*([f"  the call  {call}"] if call else []), f"  {said}"]
    wanted = "it comes back"
    if isinstance(error, LabHang):
        got = f"it did not within the time; it was at {error.where}"
    elif isinstance(error, SystemExit):
        got = f"it ends the program (SystemExit: {error.code})"
    elif isinstance(error, RecursionError):
        got = "it called itself without end (RecursionError)"
    else:
        wanted, got = "no error", f"{type(error).__name__}: {clip(str(error))}"
    return [f"  the call  {call}".rstrip(), f"    expected  {wanted}", f"    got       {got}"]


def typed(lab_id: str, test: str, calls: Sequence[Call]) -> list[str]:
    """The calls of a walk as lines of Python that play it again (labkit.grade.replay)."""
    lines: list[str] = []
    for call in map(write, calls):
        if lines and len(lines[-1]) + len(call) < WIDTH:
            lines[-1] += f"; it.{call}"
        else:
            lines.append(f"it.{call}")
    return [f'from labkit.grade.replay import Replay; it = Replay("{lab_id}", "{test}")', *lines]


def shorten(state: str, most: int, keep_the_end: bool = False) -> list[str]:
    lines = ["    " + line for line in state.splitlines()]
    if len(lines) <= most:
        return lines
    return ["    ...", *lines[1 - most :]] if keep_the_end else [*lines[: most - 1], "    ..."]


def clip(text: str, width: int = 100) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3].rpartition(" ")[0] + " ..."


def clip_both(expected: str, got: str) -> tuple[str, str]:
    """Both, clipped so that a difference stays in sight."""
    pair = clip(expected), clip(got)
    if pair[0] != pair[1] or expected == got:
        return pair
    start = next(i for i in range(len(expected) + 1) if expected[: i + 1] != got[: i + 1])
    start = expected.rfind(" ", 0, max(start - 20, 0)) + 1
    return "... " + clip(expected[start:]), "... " + clip(got[start:])


def find_todo(error: BaseException) -> LabTodo | None:
    """The LabTodo that an error is or came from; Triton's interpreter wraps what a kernel raises."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, LabTodo):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def learners_line(error: BaseException, file: Path | None) -> str:
    """The innermost line of the learner's file on the way to the error."""
    if isinstance(error, LabHang):
        return error.where
    raised = error.__cause__ if isinstance(error, LabFailure) and error.__cause__ else error
    entries = [entry for entry in traceback.extract_tb(raised.__traceback__) if file and Path(entry.filename) == file]
    return f"{entries[-1].filename.rpartition('/')[2]}:{entries[-1].lineno}: {entries[-1].line}" if entries else ""


def outermost_call(error: BaseException, file: Path | None) -> str:
    """The first call into the learner's file on the way to the error: "to_slots()"; "" if there is none."""
    names = [frame.f_code.co_qualname for frame, _ in traceback.walk_tb(error.__traceback__) if is_in(frame, file)]
    name = names[0].removesuffix(".__init__").rpartition(".")[2] if names else ""
    return f"{name}()" if name.isidentifier() else ""


def is_in(frame: FrameType, file: Path | None) -> bool:
    return file is not None and Path(frame.f_code.co_filename) == file


def definitions(part: Part) -> str:
    """Where the slots are defined, for a result that is wrong without an error: mine.py:12 schedule, :30 _preempt."""
    if part.tests:
        return f"{part.file.name}, {len(part.tests)} test{'s' if len(part.tests) > 1 else ''}"
    places = []
    for slot, mine in part.replacements:
        code = getattr(getattr(mine, "__func__", getattr(mine, "fn", mine)), "__code__", None)
        places.append(f":{code.co_firstlineno} {slot.name}" if code else slot.name)
    return part.file.name + ", ".join(places) if places[0].startswith(":") else f"{part.file.name}: {', '.join(places)}"


def short(lab: Lab, file: Path) -> str:
    """The path of a file as a learner would type it."""
    return file.relative_to(lab.root).as_posix() if lab.root in file.parents else file.name
