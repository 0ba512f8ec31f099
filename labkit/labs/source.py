"""The reference as source text: stubs and solutions are cut from it; a learner's file is looked over before it runs.

There is one source, and no stub is written by hand. Signatures, docstrings and comments are copied as they stand; in a
stub a body becomes one call of todo(). The imports are those that the reference's own bodies need, so a learner has the
names at hand.
"""

import ast
import os
import re
import stat
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from labkit.labs.catalog import ROOT, Lab, LabkitError, Slot

MOST_BYTES = 1 << 20  # of a learner's file

Definition = ast.FunctionDef | ast.ClassDef
LINE = 120
ALGORITHMS = ("array", "bisect", "heapq", "itertools", "functools")


def meaning(text: str) -> str:
    """What a file says, however its lines are broken: its tree, with the words of its texts and of its comments."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = " ".join(node.value.split())
    comments = re.findall(r"^ *# ?(.*)", text, re.MULTILINE)
    return ast.dump(tree) + " ".join(" ".join(comments).split())


@dataclass(frozen=True)
class Module:
    """A module of the reference, parsed and not imported."""

    name: str
    text: str
    tree: ast.Module

    def find(self, qualname: str) -> Definition:
        """The function or class of that name. Errors: LabkitError."""
        scope: ast.Module | Definition = self.tree
        for part in qualname.split("."):
            inside = [node for node in scope.body if isinstance(node, Definition) and node.name == part]
            if not inside:
                raise LabkitError(f"{self.name} has no {qualname}")
            scope = inside[-1]
        assert isinstance(scope, Definition)
        return scope

    def lines(self, first: int, last: int) -> str:
        """Lines [first, last] of the file, counted from 1, without their common indentation."""
        return textwrap.dedent("\n".join(self.text.splitlines()[first - 1 : last]))

    @property
    def definitions(self) -> set[str]:
        """Names that the module itself defines at its top level."""
        names = set()
        for node in self.tree.body:
            if isinstance(node, Definition):
                names.add(node.name)
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
        return names

    def import_of(self, name: str) -> str | None:
        """The statement that brings `name` into the module."""
        for node in self.tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        what = alias.name + (f" as {alias.asname}" if alias.asname else "")
                        return (
                            f"from {node.module} import {what}"
                            if isinstance(node, ast.ImportFrom)
                            else f"import {what}"
                        )
        return None


@cache
def read_module(name: str) -> Module:
    """The source of a module, found without importing the packages above it. Errors: LabkitError if there is none."""
    file = ROOT.joinpath(*name.split(".")).with_suffix(".py")
    if not file.exists():
        raise LabkitError(f"there is no module {name}")
    text = file.read_text(encoding="utf-8")
    return Module(name, text, ast.parse(text))


# --- stubs and solutions ------------------------------------------------------------------------------------------


def render_stub(lab: Lab) -> str:
    """The file that a learner starts from."""
    return render_suite_stub(lab) if lab.is_break_it else render(lab, with_bodies=False)


def render_solution(lab: Lab) -> str:
    """The same file with the reference's bodies: what `lab diff` shows, and what seeded bugs are edits of."""
    return lab.solution.read_text(encoding="utf-8") if lab.is_break_it else render(lab, with_bodies=True)


SUITE_STUB = '''"""Lab {id}: {title} ({minutes} minutes). You write the tests.

What must hold is in contract.md. Each test is a function test_...(lab); lab has the engine's names. It is run on
correct engines, where it must be green, and on buggy ones, where at least one of your tests must be red. The first test
is an example, and yours to change.
"""

{example}


def test_what_you_break_first(lab):
    """Yours: rename it, and write more of them."""
    todo("{id}")
'''


CASES_STUB = '''"""Lab {id}: {title} ({minutes} minutes). You find the culprit, and write the tests.

`lab evidence {id}` shows the cases; what must hold is in contract.md. Name the culprit of each. Then write tests that
catch it and its like: each is a function test_...(lab), green on every correct engine. The first test is an example,
and yours to change.
"""

{example}


{answers}


def test_what_catches_it(lab):
    """Yours: rename it, and write more of them."""
    todo("{id}")
'''


def render_suite_stub(lab: Lab) -> str:
    """A break-it lab's stub: the solution up to the end of its first test, as the example, and a test to be written."""
    text = lab.solution.read_text(encoding="utf-8")
    tree = ast.parse(text)
    first = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
    example = "\n".join(text.splitlines()[tree.body[0].end_lineno : first.end_lineno]).strip()
    example = re.sub(r"(?m)^(from labkit import .*)$", r"\1, todo", example, count=1)
    answers = "\n".join(
        f'CASE_{case.upper()} = {{"culprit": "", "step": None, "why": ""}}  # "module:Class.function", a number, words'
        for case in lab.cases
    )
    stub = CASES_STUB if lab.cases else SUITE_STUB
    return stub.format(id=lab.id, title=lab.title, minutes=lab.minutes, example=example, answers=answers)


def render(lab: Lab, *, with_bodies: bool) -> str:
    """Head, imports, then functions and classes in the order of the slots; methods stand in a class of their owner."""
    slots = [*lab.slots, *lab.answer] if with_bodies else list(lab.slots)
    owners = list(dict.fromkeys((slot.module, slot.owner) for slot in slots))
    parts = []
    for module, owner in owners:
        texts = [cut(slot, lab.id, with_bodies) for slot in slots if (slot.module, slot.owner) == (module, owner)]
        if owner:
            head = f'class {owner}(Reference{owner}):\n    """What is not defined here is the reference\'s."""\n\n'
            parts.append(head + textwrap.indent("\n".join(texts), "    ", lambda line: bool(line.strip())))
        else:
            parts.append("\n\n".join(texts))
    head = f'"""Lab {lab.id}: {lab.title} ({lab.minutes} minutes). What must hold is in contract.md."""\n'
    return head + "\n" + imports_of(lab, [*lab.slots, *lab.answer], with_bodies) + "\n\n\n" + "\n\n".join(parts)


def cut(slot: Slot, lab_id: str, with_bodies: bool) -> str:
    """A definition as text, whole or as a stub."""
    module = read_module(slot.module)
    node = module.find(slot.qualname)
    if with_bodies:
        return module.lines(first_line(node), node.end_lineno or 0) + "\n"
    if isinstance(node, ast.FunctionDef):
        return stub_of(module, node, lab_id)
    parts = [module.lines(first_line(node), last_line_of_head(node)) + "\n"]
    is_field = False
    for child in node.body[1:] if ast.get_docstring(node) else node.body:
        if isinstance(child, ast.FunctionDef) and is_private(child.name):
            continue
        if isinstance(child, ast.FunctionDef):
            text = "\n" * is_field + stub_of(module, child, lab_id)
        else:
            text = module.lines(child.lineno, child.end_lineno or 0)
        is_field = not isinstance(child, ast.FunctionDef)
        parts.append(textwrap.indent(text, "    ", lambda line: bool(line.strip())))
    return "\n".join(parts)


def stub_of(module: Module, node: ast.FunctionDef, lab_id: str) -> str:
    """Decorators, signature and docstring, then todo()."""
    return module.lines(first_line(node), last_line_of_head(node)) + f'\n    todo("{lab_id}")\n'


def is_private(name: str) -> bool:
    """Of a class that a learner writes, it is one of the reference's helpers."""
    return name.startswith("_") and not name.endswith("__")


def first_line(node: Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def last_line_of_head(node: Definition) -> int:
    """The end of the docstring, or of the signature."""
    body = node.body[0]
    return (body.end_lineno or body.lineno) if ast.get_docstring(node) is not None else body.lineno - 1


def imports_of(lab: Lab, slots: list[Slot], with_bodies: bool) -> str:
    """The imports that the reference's bodies need, sorted; names that are being written are not imported.

    A stub has those of things, not those of algorithms: they would tell the way.
    """
    written = {slot.owner or slot.name for slot in (*lab.slots, *lab.answer)}
    statements = set() if with_bodies else {"from labkit import todo"}
    for slot in slots:
        module = read_module(slot.module)
        if slot.owner:
            statements.add(f"from {slot.module} import {slot.owner} as Reference{slot.owner}")
        for name in sorted(names_in(module.find(slot.qualname)) - written - {slot.owner}):
            statement = module.import_of(name)
            if statement is None and name in module.definitions:
                statement = f"from {slot.module} import {name}"
            if statement and (with_bodies or statement.split()[1] not in ALGORITHMS):
                statements.add(statement)
    return join_imports(statements)


def names_in(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def join_imports(statements: set[str]) -> str:
    """Standard library, a blank line, the rest; one statement a module."""
    modules: dict[str, list[str]] = {}
    plain = []
    for statement in sorted(statements):
        if statement.startswith("from "):
            module, _, name = statement.removeprefix("from ").partition(" import ")
            modules.setdefault(module, []).append(name)
        else:
            plain.append(statement)
    lines = plain + [import_line(module, sorted(names)) for module, names in modules.items()]
    ours = [line for line in lines if line.split()[1].split(".")[0] in ("labkit", "mini_vllm")]
    others = [line for line in lines if line not in ours]
    return "\n\n".join("\n".join(group) for group in (others, ours) if group)


def import_line(module: str, names: list[str]) -> str:
    """One statement; a name a line if it would be too long."""
    line = f"from {module} import {', '.join(names)}"
    return line if len(line) <= LINE else f"from {module} import (\n    " + ",\n    ".join(names) + ",\n)"


# --- a learner's file, before it runs -------------------------------------------------------------------------------


def read(file: Path) -> str:
    """A learner's file as text, its line ends as "\\n".

    Errors: LabkitError for what is none: a folder, a pipe, a device, no UTF-8, a NUL byte, more than a mebibyte.
    """
    try:
        with open(os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as opened:  # a pipe would wait
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise LabkitError(f"{file.name} is no file but a pipe or a device.")
            data = opened.read(MOST_BYTES + 1)
    except IsADirectoryError:
        raise LabkitError(f"{file.name} is a folder, not a file.") from None
    except OSError as error:
        raise LabkitError(f"{file.name}: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise LabkitError(f"{file.name} is longer than {MOST_BYTES:,} bytes.")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise LabkitError(f"{file.name}: {error}\nA file of Python is UTF-8 text.") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise LabkitError(f"{file.name}:{line}: a NUL byte\nA file of Python has none.")
    return text


def parse(file: Path, text: str | None = None) -> ast.Module:
    """The syntax tree of a file, or of `text` as its content. Errors: LabkitError with the line of a syntax error."""
    text = read(file) if text is None else text
    try:
        return tree_of(text)
    except SyntaxError as error:
        line = (error.text or "").strip()
        raise LabkitError(
            f"{file.name}:{error.lineno}: {error.msg}\n    {line}\nPython cannot read the file."
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise LabkitError(f"{file.name}: {error or type(error).__name__}\nPython cannot read the file.") from None


@cache
def tree_of(text: str) -> ast.Module:
    """The syntax tree of a text; those of a break-it lab are looked at many times. It is never changed."""
    return ast.parse(text)


def unwritten(tree: ast.Module) -> set[str]:
    """The functions whose body still is a call of todo(), by qualified name."""
    found = set()
    for qualname, node in functions_of(tree):
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        call = body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "todo":
            found.add(qualname)
    return found


def attributes_given(tree: ast.AST) -> set[str]:
    """The attributes that a file, or a part of it, assigns to objects: `self.mask = ...`."""
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}


def functions_of(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, ast.FunctionDef):
                    yield f"{node.name}.{child.name}", child


def refuse_borrowing(tree: ast.Module, file: Path, lab: Lab) -> None:
    """Errors: LabkitError, kindly, where the file takes the reference's answer instead of writing one."""
    answer = {slot.name for slot in (*lab.slots, *lab.answer)}
    plain = {slot.name for slot in (*lab.slots, *lab.answer) if not slot.owner}
    inherited = names_from_above(lab)
    for node in ast.walk(tree):
        borrowed = None
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("mini_vllm", "labkit.")):
            borrowed = next((alias.name for alias in node.names if alias.name in plain), None)
        elif isinstance(node, ast.Attribute) and node.attr in answer:
            receiver = node.value
            if is_super(receiver):
                borrowed = None if node.attr in inherited else f"super().{node.attr}"
            elif isinstance(receiver, ast.Name) and receiver.id.startswith("Reference"):
                borrowed = f"{receiver.id}.{node.attr}"
            elif node.attr in {slot.name for slot in lab.answer} and not defines(tree, node.attr):
                borrowed = f"{ast.unparse(receiver)}.{node.attr}"
        if borrowed:
            raise is_borrowed(f"{file.name}:{getattr(node, 'lineno', 0)}", borrowed, lab)


def is_borrowed(place: str, what: str, lab: Lab) -> LabkitError:
    """What a learner reads of an answer that is the reference's."""
    return LabkitError(
        f"{place}: {what} is the reference's answer to this lab.\n"
        f"Write it yourself first; `lab diff {lab.id}` shows the reference when you are done."
    )


LOOKING = {  # at how an engine is written, or at what runs a test
    *("__code__", "__module__", "__qualname__", "__doc__", "__globals__", "__closure__", "__defaults__", "__func__"),
    *(
        "__wrapped__",
        "__mro__",
        "__bases__",
        "__subclasses__",
        "__traceback__",
        "__builtins__",
        "__loader__",
        "__spec__",
    ),
    *("__file__", "__import__", "f_back", "f_code", "f_globals", "f_locals", "tb_frame", "tb_next", "gi_frame"),
    *("eval", "exec", "open", "compile"),
}
MODULES_TO_LOOK = {
    *("ast", "builtins", "concurrent", "ctypes", "dis", "gc", "importlib", "inspect", "io", "linecache", "marshal"),
    *("multiprocessing", "os", "pathlib", "pkgutil", "shutil", "signal", "subprocess", "sys", "tempfile", "threading"),
    "traceback",
}
FOR_TESTS = {
    "Check",
    "LabFailure",
    "LabTodo",
    "attempt",
    "cases",
    "check",
    "concept",
    "raises",
    "search",
    "todo",
    "walk",
}


def refuse_looking(tree: ast.Module, file: Path) -> None:
    """Errors: LabkitError, where a test may learn on which version it runs by another way than what that does."""
    nodes = list(ast.walk(tree))
    imported = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    graders = {alias.asname or alias.name for alias in imported if alias.name == "labkit"}
    for node in nodes:
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names if is_for_looking(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            found = [node.module or ""] if is_for_looking(node.module or "") else []
            if node.module == "labkit":
                found = [alias.name for alias in node.names if alias.name not in FOR_TESTS]
        elif isinstance(node, ast.Attribute):
            is_ours = isinstance(node.value, ast.Name) and node.value.id in graders
            found = (
                [node.attr]
                if (node.attr not in FOR_TESTS if is_ours else "_" in node.attr and node.attr in LOOKING)
                else []
            )
        elif isinstance(node, ast.Name):
            found = [node.id] if node.id in LOOKING else []
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("__"):
            found = [node.value] if node.value in LOOKING else []
        if found:
            raise LabkitError(
                f"{file.name}:{getattr(node, 'lineno', 0)}: {', '.join(found)} shows what is tested, or what tests.\n"
                "A test of yours asks only what an engine does, in the names of contract.md."
            )


def is_for_looking(module: str) -> bool:
    """Whether a module tells a test more than what an engine does."""
    first, _, rest = module.partition(".")
    return first in MODULES_TO_LOOK or (first == "labkit" and rest not in ("", "testing.search", "testing.words"))


def names_from_above(lab: Lab) -> set[str]:
    """What the reference's answer itself takes by super(): of the class that is extended, so nothing is borrowed."""
    found = [read_module(slot.module).find(slot.qualname) for slot in (*lab.slots, *lab.answer)]
    nodes = [node for each in found for node in ast.walk(each)]
    return {node.attr for node in nodes if isinstance(node, ast.Attribute) and is_super(node.value)}


def is_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def defines(tree: ast.Module, name: str) -> bool:
    return any(qualname.rpartition(".")[2] == name for qualname, _ in functions_of(tree))
