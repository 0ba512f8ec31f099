"""Puts a learner's parts into the reference, and takes them out again.

A file is loaded by its path under a module name of its own; from it only the lab's slots are taken, with the helpers
that stand beside them. For the time of a test they stand where the reference's stood, in every module that uses it, so
the rest of the engine runs on them. So any lab can be done first, and any parts can be put together.
"""

import importlib
import importlib.util
import inspect
import itertools
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from labkit import source
from labkit.catalog import Lab, LabkitError, Slot
from labkit.testing import LabTodo

_numbers = itertools.count()
_NOTHING = object()  # stands for an attribute that was not there
_swaps: list[tuple[Any, str, Any, Any]] = []  # what is grafted now: owner, name, the part's value, the reference's


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
        self.unwritten = source.unwritten(tree)
        self.module = load(file, text)
        self.replacements = [(slot, self._take(slot)) for slot in lab.slots]
        self.tests = tests_of(file, vars(self.module)) if lab.is_break_it else {}

    def _take(self, slot: Slot) -> Any:
        """What the file has for a slot, checked against the reference's signature."""
        holder: Any = getattr(self.module, slot.owner, None) if slot.owner else self.module
        mine = None if holder is None else vars(holder).get(slot.name)
        if mine is None:
            raise LabkitError(
                f"{self.file.name} has no {slot.qualname}.\n"
                f"The stub has it: `lab reset {self.lab.id}` makes a new file and keeps yours as a backup."
            )
        if slot.qualname in self.unwritten and type(mine).__module__.startswith("triton"):
            return Unwritten(self.lab.id)
        compare_signatures(self.file, slot, mine, reference_of(slot))
        return mine

    def helpers(self, slot: Slot) -> dict[str, Any]:
        """What a class of the file has beside the slots and the reference's class itself has not, or has as its answer.

        A method that the reference's class only inherits may be overridden: for this class, not for its base.
        """
        owner = getattr(self.module, slot.owner)
        known = set(vars(reference_owner(slot))) - {other.name for other in self.lab.answer}
        return {name: value for name, value in vars(owner).items() if name not in known and not name.startswith("__")}


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


def load(file: Path, text: str | None = None) -> ModuleType:
    """Run a file, or `text` in its place, as a module that nothing else imports. Errors: LabkitError if it raises."""
    name = f"labkit_part_{next(_numbers)}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look their module up there
    try:
        if text is None:
            spec.loader.exec_module(module)
        else:
            exec(compile(text, file, "exec"), vars(module))
    except Exception as error:
        del sys.modules[name]
        lines = [entry.lineno for entry in traceback.extract_tb(error.__traceback__) if Path(entry.filename) == file]
        where = f"{file.name}:{lines[-1]}" if lines else file.name
        raise LabkitError(f"{where}: {type(error).__name__}: {error}\nThe file could not be loaded.") from None
    return module


def reference_owner(slot: Slot) -> Any:
    module = importlib.import_module(slot.module)
    return getattr(module, slot.owner) if slot.owner else module


def reference_of(slot: Slot) -> Any:
    return vars(reference_owner(slot))[slot.name]


def compare_signatures(file: Path, slot: Slot, mine: Any, reference: Any) -> None:
    """A call that suits the reference must suit the learner's: same parameters, further ones only with a default."""
    pairs = [(slot.qualname, mine, reference)]
    if isinstance(reference, type):
        names = [name for name, value in vars(reference).items() if callable(value)]
        pairs = [(f"{slot.qualname}.{name}", vars(mine).get(name), vars(reference)[name]) for name in names]
    for name, own, theirs in pairs:
        if own is None:
            raise LabkitError(f"{file.name}: {name} is missing.")
        own, theirs = (getattr(each, "__func__", getattr(each, "fn", each)) for each in (own, theirs))
        if not callable(own) or not callable(theirs):
            continue
        mine_parameters, parameters = (list(inspect.signature(each).parameters.values()) for each in (own, theirs))
        first = [parameter.name for parameter in mine_parameters[: len(parameters)]]
        rest = mine_parameters[len(parameters) :]
        if first != [p.name for p in parameters] or any(
            p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in rest
        ):
            raise LabkitError(
                f"{file.name}: {name}{inspect.signature(own)} is called as {name}{inspect.signature(theirs)}.\n"
                "Keep the parameters of the stub; further ones need a default."
            )


@contextmanager
def grafted(parts: Sequence[Part]) -> Iterator[None]:
    """The reference with these parts in it; of two parts with the same slot the later one counts."""
    with ExitStack() as undo:
        for part in parts:
            for slot, mine in part.replacements:
                owner = reference_owner(slot)
                if slot.owner:
                    for name, value in {**part.helpers(slot), slot.name: mine}.items():
                        move_super(value, owner)
                        replace_attribute(owner, name, value, undo)
                else:
                    replace_everywhere(vars(owner)[slot.name], mine, undo)
        yield


def move_super(method: Any, owner: Any) -> None:
    """Let super() in a method begin above the class that it is grafted into, as it does in the reference."""
    function = getattr(method, "fget", None) or getattr(method, "__func__", method)
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    if "__class__" in names:
        function.__closure__[names.index("__class__")].cell_contents = owner


def replace_attribute(owner: Any, name: str, value: Any, undo: ExitStack) -> None:
    swap = (owner, name, value, vars(owner).get(name, _NOTHING))
    _swaps.append(swap)
    setattr(owner, name, value)
    undo.callback(restore, swap)


def restore(swap: tuple[Any, str, Any, Any]) -> None:
    _swaps.remove(swap)
    put(*swap[:2], swap[3])


def put(owner: Any, name: str, value: Any) -> None:
    if value is _NOTHING:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


@contextmanager
def ungrafted() -> Iterator[None]:
    """The reference as it is, for a while; then the parts stand in it again. Others may be grafted meanwhile."""
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


def replace_everywhere(reference: Any, mine: Any, undo: ExitStack) -> None:
    """In all modules of the engine that have it under some name."""
    for module_name, module in list(sys.modules.items()):
        if module_name.split(".")[0] == "mini_vllm" and module is not None:
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
