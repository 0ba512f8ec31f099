"""Puts a learner's parts into the reference, and takes them out again.

A file is loaded by its path under a module name of its own; from it only the lab's slots are taken, with the helpers
that stand beside them. For the time of a test they stand where the reference's stood, in every module that uses it, so
the rest of the engine runs on them. So any lab can be done first, and any parts can be put together.
"""

import ast
import importlib
import importlib.util
import inspect
import itertools
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

from labkit.grade.watchdog import LabHang, watchdog
from labkit.labs import source
from labkit.labs.catalog import Lab, LabkitError, Slot
from labkit.labs.classes import (
    NOTHING,
    OwnClass,
    Several,
    accepts,
    call_of,
    heirs_of,
    names_of_their_own,
    rename,
    renamed,
)
from labkit.labs.taken import find_borrowed, refuse_reaching
from labkit.testing.words import LabTodo

_numbers = itertools.count()
_swaps: list[tuple[Any, str, Any, Any]] = []  # what is grafted now: owner, name, the part's value, the reference's


_make: Callable[[Any, Callable[[], None]], None] | None = None


class Unwritten:
    """Stands for a kernel that is not written yet: a launch says so."""

    def __init__(self, lab_id: str) -> None:
        self.lab_id = lab_id

    def __getitem__(self, grid: object) -> Any:
        raise LabTodo(self.lab_id)


class Part:
    """One file that implements a lab. Errors: LabkitError for a file that cannot be graded, and why."""

    def __init__(self, lab: Lab, file: Path, text: str | None = None, *, is_learners: bool = True) -> None:
        """text: what to take for the file's content, when it is not on disk."""
        self.lab = lab
        self.file = file
        self.is_learners = is_learners
        tree = source.parse(file, text)
        if is_learners:
            source.refuse_borrowing(tree, file, lab)
            if lab.is_break_it:
                source.refuse_looking(tree, file)
            else:
                refuse_reaching(tree, file, lab)
        self.unwritten = source.unwritten(tree)
        self._given = source.attributes_given(tree)
        self._load(tree, text)
        if own := self._names_of_their_own(tree):
            self._load(tree, text, {name: f"{name} of lab {lab.id}" for name in own})
        self.replacements = [(slot, self._take(slot)) for slot in lab.slots]
        rename(self.module, list(self.classes.values()))
        self.tests = tests_of(file, vars(self.module)) if lab.is_break_it else {}
        self.text = (source.read(file) if text is None else text) if self.tests else ""
        self.runs: dict[Any, Any] = {}  # what labkit.grade.breaking remembers of these tests

    def _load(self, tree: ast.Module, text: str | None, new: Mapping[str, str] | None = None) -> None:
        """Run the file, with other names for some attributes, and take its classes apart."""
        self.module = load_in_time(self.file, text, new) if self.is_learners else load(self.file, text, new)
        self.refuse_borrowing()
        owners = dict.fromkeys(owner_of(slot) for slot in self.lab.slots if slot.owner)
        self.classes = {owner: self._own_class(owner, tree) for owner in owners}

    def _names_of_their_own(self, tree: ast.Module) -> set[str]:
        found: set[str] = set()
        for owner, own in self.classes.items():
            slots = {slot.name for slot in self.lab.slots if owner_of(slot) == owner}
            found |= names_of_their_own(tree, own, slots)
        return found

    def _own_class(self, owner: tuple[str, str], tree: ast.Module) -> OwnClass:
        """The class of the file that is named as the reference's, taken apart."""
        module, name = owner
        cls = vars(self.module).get(name)
        if not isinstance(cls, type):
            raise LabkitError(self._lacks(name))
        found = OwnClass(self.file, tree, cls, getattr(importlib.import_module(module), name))
        slots = (*self.lab.slots, *self.lab.answer)
        found.answer = {slot.name for slot in slots if (slot.module, slot.owner) == owner}
        return found

    def _take(self, slot: Slot) -> Any:
        """What the file has for a slot, checked against the reference's signature."""
        has = self.classes[owner_of(slot)].attributes if slot.owner else vars(self.module)
        mine = has.get(slot.name)
        if mine is None:
            raise LabkitError(self._lacks(slot.qualname))
        if slot.qualname in self.unwritten and type(mine).__module__.startswith("triton"):
            return Unwritten(self.lab.id)
        compare_signatures(self.file, slot, mine, reference_of(slot), self._given)
        return mine

    def refuse_borrowing(self) -> None:
        """Errors: LabkitError, where the learner's module holds the reference's answer now."""
        if self.is_learners and (slot := find_borrowed(self.module, self.lab)):
            raise source.is_borrowed(self.file.name, slot.qualname, self.lab)

    def leave(self, slots: Collection[Slot]) -> None:
        """Let these slots be another part's, or the reference's."""
        for slot, _ in self.replacements:
            if slot in slots and slot.owner:
                del self.classes[owner_of(slot)].attributes[slot.name]
        self.replacements = [each for each in self.replacements if each[0] not in slots]

    def _lacks(self, name: str) -> str:
        return (
            f"{self.file.name} has no {name}.\n"
            f"The stub has it: `lab reset {self.lab.id}` makes a new file and keeps yours as a backup."
        )


def owner_of(slot: Slot) -> tuple[str, str]:
    """The class that a slot is a method of, by module and name; no name for what stands in a module."""
    return slot.module, slot.owner


def tests_of(file: Path, names: dict[str, Any]) -> dict[str, Callable[[Any], None]]:
    """The test functions of a learner's file. Errors: LabkitError if there is none, or one takes something else."""
    tests: dict[str, Callable[[Any], None]] = {
        name: value for name, value in names.items() if name.startswith("test_") and inspect.isfunction(value)
    }
    if not tests:
        raise LabkitError(f"{file.name} has no test: no function whose name begins with test_.")
    for name, test in tests.items():
        if len(inspect.signature(test).parameters) != 1:
            raise LabkitError(
                f"{file.name}: {name}{inspect.signature(test)} must take one argument: the engine's names."
            )
    return tests


def load_in_time(file: Path, text: str | None, new: Mapping[str, str] | None = None) -> ModuleType:
    """Run a learner's file, which may hang or end the program. Errors: LabkitError."""
    try:
        with watchdog(file=file):
            return load(file, text, new)
    except LabHang as hang:
        raise LabkitError(
            f"{hang.where or file.name}\nThe file does not come to its end; it was at this line."
        ) from None
    except SystemExit as end:
        raise LabkitError(f"{file.name} ends the program (SystemExit: {end.code}) where it is loaded.") from None


def load(file: Path, text: str | None = None, new: Mapping[str, str] | None = None) -> ModuleType:
    """Run a file, or `text` in its place, as a module that nothing else imports. Errors: LabkitError if it raises.

    new: other names for some of its attributes.
    """
    name = f"labkit_part_{next(_numbers)}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look their module up there
    try:
        if text is None and not new:
            spec.loader.exec_module(module)
        else:
            code = compiled(source.read(file) if text is None else text, file)
            exec(renamed(code, new) if new else code, vars(module))
    except Exception as error:
        del sys.modules[name]
        lines = [entry.lineno for entry in traceback.extract_tb(error.__traceback__) if Path(entry.filename) == file]
        where = f"{file.name}:{lines[-1]}" if lines else file.name
        raise LabkitError(f"{where}: {type(error).__name__}: {error}\nThe file could not be loaded.") from None
    return module


@cache
def compiled(text: str, file: Path) -> CodeType:
    """The code of a text: that of a break-it lab runs many times."""
    return compile(text, file, "exec")


def reference_owner(slot: Slot) -> Any:
    module = importlib.import_module(slot.module)
    return getattr(module, slot.owner) if slot.owner else module


def reference_of(slot: Slot) -> Any:
    return vars(reference_owner(slot))[slot.name]


def compare_signatures(file: Path, slot: Slot, mine: Any, reference: Any, given: Collection[str]) -> None:
    """A call that suits the reference must suit the learner's. Errors: LabkitError.

    given: attributes that objects get when they are made. Such a one may be what a method of the reference is.
    """
    pairs = [(slot.qualname, mine, reference)]
    if isinstance(reference, type):
        names = [
            name
            for name, value in vars(reference).items()
            if callable(value)
            and not source.is_private(name)
            and getattr(object, name, None)
            is not getattr(mine, name, NOTHING)  # such as equality, which no contract has
        ]
        pairs = [
            (f"{slot.qualname}.{name}", inspect.getattr_static(mine, name, None), vars(reference)[name])
            for name in names
            if name not in given or hasattr(mine, name)
        ]
    for name, own, theirs in pairs:
        compare_calls(file, name, own, theirs, is_method=bool(slot.owner) or isinstance(reference, type))


def compare_calls(file: Path, name: str, mine: Any, reference: Any, *, is_method: bool) -> None:
    """The same for one function or method."""
    if mine is None:
        raise LabkitError(f"{file.name}: {name} is missing.")
    if isinstance(reference, property):
        return  # it is not called
    if isinstance(mine, property) or (isinstance(reference, staticmethod) and inspect.isfunction(mine)):
        kind = "a property" if isinstance(mine, property) else "a method of an object"
        raise LabkitError(
            f"{file.name}: {name} is {kind}, and is called as {name}{call_of(reference, is_method=False)}."
        )
    if not callable(getattr(reference, "__func__", reference)) or not callable(getattr(mine, "__func__", mine)):
        return
    try:
        own, theirs = (call_of(each, is_method=is_method) for each in (mine, reference))
    except (TypeError, ValueError):  # what is written in C may not say it
        return
    if not accepts(own, theirs):
        own, theirs = (call_of(each, is_method=False) for each in (mine, reference))
        raise LabkitError(
            f"{file.name}: {name}{own} is called as {name}{theirs}.\n"
            "Keep the parameters of the stub; further ones need a default."
        )


@contextmanager
def grafted(parts: Sequence[Part]) -> Iterator[None]:
    """The reference with these parts in it; of two parts with the same slot the later one counts."""
    for module in dict.fromkeys(module for part in parts for module in part.lab.modules):
        importlib.import_module(module)  # later it would take a part's function along, and keep it
    with ExitStack() as undo:
        helpers: dict[tuple[tuple[str, str], str], dict[str, Any]] = {}  # of each class and name: by module
        for part in parts:
            for owner, own in part.classes.items():
                undo.callback(setattr, own, "below", dict(own.below))
                for name, value in own.attributes.items():
                    if name not in vars(own.reference) or (owner, name) in helpers:
                        values = helpers.setdefault((owner, name), {})
                        values[part.module.__name__] = value
                        value = Several(dict(values), value) if len(values) > 1 else value
                    own.below[name] = vars(own.reference).get(name, NOTHING)
                    replace_attribute(own.reference, name, with_options(name, value, own), undo)
                    if name == "__init__":
                        graft_constructor(value, own, undo)
            for slot, mine in part.replacements:
                if not slot.owner:
                    replace_everywhere(slot, mine, undo)
        yield


def graft_constructor(value: Any, own: OwnClass, undo: ExitStack) -> None:
    """Let the engine's subclasses have the learner's __init__, too, where they do not call that of the class above."""
    undo.callback(setattr, own, "constructors", dict(own.constructors))
    for heir in heirs_of(own.reference):
        own.constructors[heir] = vars(heir)["__init__"]
        replace_attribute(heir, "__init__", value, undo)


def with_options(name: str, value: Any, own: OwnClass) -> Any:
    """A constructor that hands on **options has the reference's, which the engine reads off its signature."""
    if name == "__init__" and inspect.isfunction(value) and own.beneath(name) is not NOTHING:
        kinds = {parameter.kind for parameter in inspect.signature(value).parameters.values()}
        if inspect.Parameter.VAR_KEYWORD in kinds:
            value.__signature__ = inspect.signature(own.beneath(name))  # type: ignore[attr-defined]
    return value


def replace_attribute(owner: Any, name: str, value: Any, undo: ExitStack) -> None:
    swap = (owner, name, value, vars(owner).get(name, NOTHING))
    _swaps.append(swap)
    put(owner, name, value)
    undo.callback(restore, swap)


def restore(swap: tuple[Any, str, Any, Any]) -> None:
    _swaps.remove(swap)
    put(*swap[:2], swap[3])


def put(owner: Any, name: str, value: Any) -> None:
    change = partial(delattr, owner, name) if value is NOTHING else partial(setattr, owner, name, value)
    if _make is None:
        change()
    else:
        _make(owner, change)


def let_make_changes(make: Callable[[Any, Callable[[], None]], None]) -> None:
    """Let make(owner, change) make each change from now on: labkit.grade.intact tells them from a file's."""
    global _make
    _make = make


@contextmanager
def ungrafted() -> Iterator[None]:
    """The reference as it is, for a while; then the parts stand in it again. Other parts may be grafted meanwhile."""
    swaps = list(_swaps)
    _swaps.clear()
    try:
        for owner, name, _, reference in reversed(swaps):
            put(owner, name, reference)
        yield
    finally:
        _swaps.extend(swaps)
        for owner, name, mine, _ in swaps:
            put(owner, name, mine)


def replace_everywhere(slot: Slot, mine: Any, undo: ExitStack) -> None:
    """In its own module, and in all of the engine that have it under some name."""
    reference = reference_of(slot)
    for module_name, module in list(sys.modules.items()):
        if (module_name == slot.module or module_name.split(".")[0] == "mini_vllm") and module is not None:
            for name, value in list(vars(module).items()):
                if value is reference:
                    replace_attribute(module, name, mine, undo)


def namespace(modules: Sequence[str]) -> SimpleNamespace:
    """The public names of these modules as they are now."""
    names: dict[str, Any] = {}
    for module_name in modules:
        module = importlib.import_module(module_name)
        names |= {
            name: value
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", module_name).split(".")[0] != "typing"
        }
    return SimpleNamespace(**names)
