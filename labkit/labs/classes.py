"""A learner's class, taken apart: what it has goes into the reference's class, where it must work as it did.

The objects of the engine are of the reference's class, not of the learner's. So that plain Python works all the same,
the learner's module sees other things under three kinds of names while nothing else changes in it:

    Scheduler              the learner's own class: the reference's, so isinstance() and Scheduler.LIMIT are right
    ReferenceScheduler     the reference's class: as it was without this part, so ReferenceScheduler.__init__ is its own
    super                  goes up the learner's bases, then to the reference's class as it was, then above that
"""

import ast
import builtins
import inspect
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from textwrap import dedent
from types import CodeType, FunctionType, ModuleType
from typing import Any

from labkit.labs.catalog import LabkitError
from labkit.labs.source import attributes_given
from mini_vllm.policies.registry import SCHEDULERS, SWAPPING

NOTHING = object()  # stands for an attribute that is not there
MACHINERY = {"_abc_impl", "__annotate__", "__annotate_func__", "__init_subclass__", "__class_getitem__"}
SPECULATING = "mini_vllm.spec_decode.scheduler:SpeculativeScheduler"
METHODS = (FunctionType, staticmethod, classmethod, property)


class OwnClass:
    """The learner's class of a name, with the bases that are the learner's, too.

    below: what the reference's class had in place of an attribute before it was grafted; constructors: the __init__
    that its heirs had. Errors: LabkitError for what cannot be grafted, and why.
    """

    def __init__(self, file: Path, tree: ast.Module, cls: type, reference: type) -> None:
        self.cls, self.reference = cls, reference
        self.own = [each for each in cls.__mro__ if each not in reference.__mro__]
        self.below: dict[str, Any] = {}
        self.constructors: dict[type, Any] = {}
        self.answer: set[str] = set()  # what super() passes over in the reference's class
        self.attributes: dict[str, Any] = {}
        for each in reversed(self.own):
            if "__slots__" in vars(each) or "__new__" in vars(each):
                name = "__slots__" if "__slots__" in vars(each) else "__new__"
                raise LabkitError(
                    f"{file.name}: {each.__name__}.{name} cannot be graded, since the objects are made by the "
                    "reference's class: write __init__."
                )
            self.attributes |= {name: value for name, value in vars(each).items() if is_graftable(name, value)}
        bases = {each.__name__ for each in self.own[1:]}
        for line, names in asked_for(tree):
            if asked := names & bases:
                raise LabkitError(
                    f"{file.name}:{line}: isinstance(..., {min(asked)}) is always False here, since the objects are "
                    f"of the reference's class: ask for {cls.__name__}."
                )

    def look_up(self, cls: object, name: str, kind: type) -> Any:
        """What stands behind `cls` in the order of the bases, as it would if nothing of this part were grafted.

        kind: the class of the object for which it is looked up.
        """
        mro = self.cls.__mro__
        for each in mro[mro.index(cls) + 1 :]:
            if each is self.reference:
                found = NOTHING if name in self.answer else self.beneath(name, kind)
            else:
                found = vars(each).get(name, NOTHING)
            if found is not NOTHING:
                return found
        return NOTHING

    def beneath(self, name: str, kind: type | None = None) -> Any:
        """An attribute of the reference's class without this part; of an heir of that class its own constructor."""
        kinds: Sequence[type] = kind.__mro__ if kind and name == "__init__" else ()
        for each in kinds:
            if each in self.constructors:
                return self.constructors[each]
        return self.below[name] if name in self.below else vars(self.reference).get(name, NOTHING)

    def construct(self, instance: Any, *arguments: Any, **options: Any) -> None:
        """The reference's __init__ as a learner calls it by its class: that of the object's own class."""
        self.beneath("__init__", type(instance))(instance, *arguments, **options)


def heirs_of(reference: type) -> Iterator[type]:
    """The engine's subclasses whose __init__ was made of their fields, and so does not call that of the class above."""
    for each in heirs(reference):
        if is_dataclass(each) and "__init__" in vars(each) and "__init__" not in names_in(each):
            yield each


def heirs(cls: type) -> Iterator[type]:
    """All of the engine's subclasses."""
    for path in (*SCHEDULERS.values(), SWAPPING, SPECULATING):
        resolve_name(path)
    yield from heirs_loaded(cls)


def heirs_loaded(cls: type) -> Iterator[type]:
    each: type
    for each in cls.__subclasses__():
        yield each
        yield from heirs_loaded(each)


@cache
def asked_for(tree: ast.Module) -> list[tuple[int, set[str]]]:
    """The line of every isinstance() in a file, and the names in its second argument."""
    return [
        (node.lineno, {each.id for each in ast.walk(node.args[-1]) if isinstance(each, ast.Name)})
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance" and node.args
    ]


def is_graftable(name: str, value: object) -> bool:
    """Whether an attribute of a class was written by a person."""
    if name in MACHINERY:
        return False
    return isinstance(value, METHODS) if name.startswith("__") and name.endswith("__") else True


def rename(module: ModuleType, classes: list[OwnClass]) -> None:
    """Let the learner's module see what the head of this file says."""
    for each in classes:
        for name, value in list(vars(module).items()):
            if value is each.cls:
                setattr(module, name, each.reference)
            elif value is each.reference:
                setattr(module, name, Original(each))
    if classes and "super" not in vars(module):
        module.super = Super(classes)  # type: ignore[attr-defined]


class Original:
    """The reference's class as it was without a part, and without the answer to its lab, under whatever name."""

    def __init__(self, own: OwnClass) -> None:
        self._own = own

    def __getattribute__(self, name: str) -> Any:
        own: OwnClass = object.__getattribute__(self, "_own")
        if name in own.answer:
            raise LabkitError(f"{own.reference.__name__}.{name} is the reference's answer to this lab.")
        if name == "__init__" and own.constructors:
            return own.construct
        found = own.beneath(name)
        return getattr(own.reference, name) if found is NOTHING else bound(found, None, own.reference)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return object.__getattribute__(self, "_own").reference(*arguments, **named)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, object.__getattribute__(self, "_own").reference)

    def __subclasscheck__(self, cls: type) -> bool:
        return issubclass(cls, object.__getattribute__(self, "_own").reference)


class Super:
    """super(), super(Scheduler, self) and, for classes that are not grafted, super() as always."""

    def __init__(self, classes: list[OwnClass]) -> None:
        self.__classes = classes

    def __call__(self, *arguments: Any) -> Any:
        if not arguments:
            frame = sys._getframe(1)
            arguments = (frame.f_locals["__class__"], frame.f_locals[frame.f_code.co_varnames[0]])
        if len(arguments) == 2:
            cls, instance = arguments
            for own in self.__classes:
                if cls is own.reference:
                    cls = own.cls
                kind = instance if isinstance(instance, type) else type(instance)
                if cls in own.own and own.cls not in kind.__mro__:
                    return Above(own, cls, instance)
        return builtins.super(*arguments)


class Above:
    """What super() gives: attributes as they are above a class, bound to the instance (or class)."""

    def __init__(self, own: OwnClass, cls: type, instance: Any) -> None:
        self._seen = own, cls, instance

    def __getattribute__(self, name: str) -> Any:
        own, cls, instance = object.__getattribute__(self, "_seen")
        kind = instance if isinstance(instance, type) else type(instance)
        found = own.look_up(cls, name, kind)
        if found is NOTHING:
            raise AttributeError(f"'super' object has no attribute {name!r}")
        return bound(found, None, instance) if kind is instance else bound(found, instance, kind)


def bound(value: Any, instance: Any, cls: type) -> Any:
    """An attribute as Python gives it to code that asks for it."""
    get = getattr(type(value), "__get__", None)
    return get(value, instance, cls) if get else value


class Several:
    """A helper that several parts have under one name: each part's code finds its own."""

    def __init__(self, values: dict[str, Any], latest: Any) -> None:
        self.values, self.latest = values, latest  # by name of the module

    def __get__(self, instance: Any, cls: type) -> Any:
        value = self.values.get(sys._getframe(1).f_globals.get("__name__", ""), self.latest)
        return bound(value, instance, cls)


def names_of_their_own(tree: ast.Module, own: OwnClass, slots: Collection[str]) -> set[str]:
    """What a class of the file has for itself, and what has a name of the engine's by accident.

    Under the engine's name a helper would be called by the engine, or a subclass of the engine's would be called in its
    place; an attribute would be overwritten, also by the file of another lab that has one of the same name.
    """
    known = {name for each in own.reference.__mro__ for name in names_in(each)} | set(slots)
    of_heirs = {name for heir in heirs(own.reference) for name in names_in(heir)} - known
    found = set()
    for name, value in own.attributes.items():
        theirs = inspect.getattr_static(own.reference, name, None)
        if name in of_heirs:
            found |= {name} if is_selfs_alone(tree, name) else set()
        elif name not in slots and not name.startswith("__") and all(map(inspect.isfunction, (value, theirs))):
            is_the_same = accepts(call_of(value, is_method=True), call_of(theirs, is_method=True))
            found |= set() if is_the_same else {name}
    names = {each.__name__ for each in own.own}
    bodies = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in names]
    given = {name for body in bodies for name in attributes_given(body)} - known - own.attributes.keys()
    private = {name for name in given if name.startswith("_") and not name.startswith("__")}
    return found | {name for name in given & of_heirs | private if is_selfs_alone(tree, name)}


def is_selfs_alone(tree: ast.Module, name: str) -> bool:
    """Whether the file has a name for an attribute or a method of self, and for nothing else."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            is_anothers = node.attr == name and not (isinstance(node.value, ast.Name) and node.value.id == "self")
        else:
            roles = () if isinstance(node, ast.FunctionDef) else ("id", "arg", "name", "asname", "value")
            is_anothers = name in (getattr(node, role, None) for role in roles)
        if is_anothers:
            return False
    return True


@cache
def names_in(cls: type) -> frozenset[str]:
    """The names that a class has in its text, and those of attributes that its methods give."""
    try:
        [body] = ast.parse(dedent(inspect.getsource(cls))).body
    except (OSError, TypeError):  # made by Python itself, or while the engine runs
        return frozenset(() if cls.__module__.startswith("mini_vllm") else dir(cls))
    assert isinstance(body, ast.ClassDef)
    own = {node.name for node in body.body if isinstance(node, ast.FunctionDef)}
    own |= {node.id for each in body.body for node in ast.walk(each) if isinstance(node, ast.Name)} - {"self"}
    return frozenset(own | attributes_given(body))


def renamed(code: CodeType, new: Mapping[str, str]) -> CodeType:
    """The code with other names for attributes, in the functions within it, too."""
    return code.replace(
        co_names=tuple(new.get(name, name) for name in code.co_names),
        co_consts=tuple(renamed(each, new) if isinstance(each, CodeType) else each for each in code.co_consts),
    )


def accepts(mine: inspect.Signature, theirs: inspect.Signature) -> bool:
    """Whether every call that suits the reference suits the learner's: by position, by name, with defaults left out."""
    return all(_suits(mine, *call) for call in _calls(list(theirs.parameters.values())))


def call_of(function: Any, *, is_method: bool) -> inspect.Signature:
    """How something is called: the signature without the parameter that Python itself fills in."""
    plain = getattr(function, "__func__", getattr(function, "fn", function))
    found = inspect.signature(plain)
    parameters = list(found.parameters.values())
    takes_self = is_method and not isinstance(function, staticmethod)
    if takes_self and parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    return found.replace(parameters=parameters)


def _calls(parameters: list[inspect.Parameter]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Ways to call something with these parameters: arguments by position, and by name."""
    plain = [p for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    only = {p.name: p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    for each in (plain, [p for p in plain if p.default is inspect.Parameter.empty]):
        yield [p.name for p in each], only
        yield [], {p.name: p.name for p in each} | only


def _suits(mine: inspect.Signature, positional: list[str], named: dict[str, str]) -> bool:
    try:
        mine.bind(*positional, **named)
    except TypeError:
        return False
    return True
