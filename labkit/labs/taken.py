"""What a learner's file takes that is not its own: the reference's answer under another name, or the grader.

refuse_borrowing() of labkit.labs.source reads the text of a file. What a name stands for is known when the file has
run: find_borrowed() looks through all that the file then holds.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from labkit.labs.catalog import Lab, LabkitError, Slot
from labkit.labs.classes import Original, Super

MOST_VALUES = 20_000  # that are looked through; a file may hold large tables
WRAPPERS = {  # where what is wrapped stands
    MethodType: ("__func__", "__self__"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    cached_property: ("func",),
    partial: ("func", "args", "keywords"),
    CellType: ("cell_contents",),
}
MADE_BY_CODE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
TO_THE_GRADER = {"__globals__", "__closure__", "cell_contents", "__subclasses__", "__builtins__"}


def refuse_reaching(tree: ast.Module, file: Path, lab: Lab) -> None:
    """Errors: LabkitError, where the file takes more of labkit than its lab needs, or looks behind a function."""
    nodes = list(ast.walk(tree))
    names = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "labkit"
    }
    for node in nodes:
        found = ""
        if isinstance(node, ast.Import):
            found = next((alias.name for alias in node.names if is_the_graders(alias.name, lab)), "")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "labkit":
            taken = {alias.name for alias in node.names}
            found = "" if node.module in lab.modules or (node.module == "labkit" and taken <= {"todo"}) else "labkit"
        elif isinstance(node, ast.Attribute):
            is_labkit = isinstance(node.value, ast.Name) and node.value.id in names and node.attr != "todo"
            found = f"labkit.{node.attr}" if is_labkit else node.attr if node.attr in TO_THE_GRADER else ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in TO_THE_GRADER:
            found = node.value
        if found:
            raise LabkitError(
                f"{file.name}:{getattr(node, 'lineno', 0)}: {found} leads to what grades the file.\n"
                "An answer needs the names of contract.md, and of labkit at most todo."
            )


def is_the_graders(module: str, lab: Lab) -> bool:
    return module.startswith("labkit.") and module not in lab.modules


def find_borrowed(module: ModuleType, lab: Lab) -> Slot | None:
    """The slot, or other part of the reference's answer, that a learner's module holds under whatever name."""
    slots = (*lab.slots, *lab.answer)
    files = {slot: getattr(sys.modules.get(slot.module), "__file__", "") for slot in slots}
    left: list[Any] = [vars(module)]
    seen: dict[int, Any] = {}  # kept, so that no other value gets the same id
    while left and len(seen) < MOST_VALUES:
        value = left.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        for slot in slots:
            if is_of(value, slot, files[slot]):
                return slot
        left += held_by(value, module)
    return None


def is_of(value: Any, slot: Slot, file: str) -> bool:
    """Whether a value is what the reference has for a slot: the thing, an object of the class, or its code."""
    owner: Any = sys.modules.get(slot.module)
    owner = getattr(owner, slot.owner, None) if slot.owner else owner
    reference = vars(owner).get(slot.name) if owner is not None else None
    if reference is not None and (value is reference or (isinstance(reference, type) and type(value) is reference)):
        return True
    code = value.__code__ if isinstance(value, FunctionType) else value
    if not isinstance(code, CodeType) or code.co_filename != file:
        return False
    return code.co_qualname == slot.qualname or code.co_qualname.startswith(f"{slot.qualname}.")


def held_by(value: Any, module: ModuleType) -> Iterator[Any]:
    """What stands in a value of the learner's: of what is another module's, nothing."""
    kind = type(value)
    if kind in (Original, Super):  # what labkit.labs.graft puts there
        return
    if kind in WRAPPERS:
        for name in WRAPPERS[kind]:
            try:
                yield getattr(value, name)
            except ValueError:  # a cell that is empty
                continue
    elif isinstance(value, dict):
        yield from list(value.values())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from list(value)
    elif isinstance(value, type):
        if is_own(value, module):
            yield from (*vars(value).values(), *value.__mro__[1:])
    elif isinstance(value, FunctionType):
        if value.__code__.co_filename == module.__file__:
            yield from (value.__defaults__, value.__kwdefaults__, *(value.__closure__ or ()), vars(value))
    elif kind.__module__.startswith("triton"):
        yield getattr(value, "fn", None)
    elif is_own(kind, module):
        yield getattr(value, "__dict__", None)


def is_own(cls: type, module: ModuleType) -> bool:
    """Whether a class is the learner's, whatever it calls itself: no other module has it under its name."""
    if cls.__module__ == module.__name__:
        return True
    there = getattr(sys.modules.get(cls.__module__), cls.__name__, None)
    return bool(cls.__flags__ & MADE_BY_CODE) and not issubclass(cls, ModuleType) and there is not cls
