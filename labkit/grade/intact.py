"""Whether all that judges a file is as it was before the file came, and was so all the time.

A file can put something else into the place of a comparison while it is called, and put the comparison back before the
grader looks. CPython gives a dictionary another number at each change (PEP 509), and modules and classes keep their
names in dictionaries. So the number tells of a change that was taken back, whatever made it: a call, an object that
dies, a thread. A Python without these numbers (has_numbers() asks) sees only what is still changed.
"""

import builtins
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_ssize_t, c_uint64, sizeof
from operator import is_
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from labkit.labs import graft

OURS = ("labkit", "mini_vllm")
KEEPS_STATE = {  # modules of the standard library whose functions set names of the module
    *("_strptime", "base64", "gettext", "ipaddress", "logging", "mimetypes", "pkgutil", "platform", "posixpath"),
    *("shutil", "socket", "sys", "sysconfig", "tempfile", "threading", "unittest", "uuid", "warnings", "zipfile"),
}
ARRAYS = ("torch", "torch._tensor", "numpy")


class Space(NamedTuple):
    """The names of a module or of a class, and what stood under them at first.

    is_ours: labkit's, the tests' or the engine's; is_whole: what is no function counts, too; may_grow: later imports
    add to it; is_fixed: nothing may change and come back.
    """

    title: str
    names: dict[str, Any]
    known: dict[str, Any]
    values: list[Any]
    is_ours: bool
    is_whole: bool
    may_grow: bool
    is_fixed: bool


def number_of(names: dict[str, Any]) -> memoryview:
    """A view of a dictionary's number, which is its first element: ma_version_tag, the field behind ma_used."""
    return memoryview(c_uint64.from_address(id(names) + object.__basicsize__ + sizeof(c_ssize_t))).cast("B").cast("Q")


def has_numbers() -> bool:
    """Whether a change that is taken back leaves another number."""
    probe = {"name": 1}
    before = number_of(probe)[0]
    probe["name"] = 2
    probe["name"] = 1
    return number_of(probe)[0] != before


def picture(folders: Sequence[Path], *, with_engine: bool) -> Callable[[], str]:
    """Remember what stands where. Returns a function that names the first thing that is or was another, "" if none is.

    That function calls nothing by a name that could have been put in its place. with_engine: a change of the engine
    that is put back counts, too; what labkit itself grafts does not.
    """
    found = list(holders(folders))
    spaces = [space_of(*holder, with_engine) for holder in found]
    codes = []
    for space in spaces:
        for name, value in space.names.items() if space.is_ours else ():
            function = getattr(value, "__func__", value)
            if isinstance(function, FunctionType):
                codes.append((f"{space.title}.{name}", function, function.__code__, function.__defaults__))
    is_counted = has_numbers()
    numbers = [number_of(space.names) for space in spaces]
    last = [number[0] for number in numbers]
    places = {id(holder): place for place, (_, holder, _) in enumerate(found)}
    every, each, is_same, can_call, kind_of, enumerated = all, map, is_, callable, type, enumerate
    module_type, builtin, identity = ModuleType, frozenset(vars(builtins)), id

    def difference(space: Space) -> str:
        """The first name under which something else stands now."""
        title, names, known, values, is_ours, is_whole, _, _ = space
        if every(each(is_same, values, names.values())) and names.__len__() == values.__len__():
            return ""
        for name, value in known.items():
            if (name not in names or names[name] is not value) and (is_whole or can_call(value)):
                return f"{title}.{name}"
        for name in names:
            if name not in known and (name in builtin or (is_ours and kind_of(names[name]) is not module_type)):
                return f"{title}.{name}"
        return ""

    def changed() -> str:
        for place, space in enumerated(spaces):
            if is_counted and numbers[place][0] == last[place]:
                continue
            if name := difference(space):
                return name
            title, names, known, *_, may_grow, is_fixed = space
            if is_counted and is_fixed and not (may_grow and names.__len__() > known.__len__()):
                return f"{title} for a while"
        for title, function, code, defaults in codes:
            if function.__code__ is not code or function.__defaults__ is not defaults:
                return title
        return ""

    def change(owner: Any, make: Callable[[], None]) -> None:
        """A change of the engine that labkit makes; one that was made before stays to be seen."""
        place = places.get(identity(owner))
        was_intact = place is not None and numbers[place][0] == last[place]
        make()
        if place is not None and was_intact:
            last[place] = numbers[place][0]

    graft.let_make_changes(change)
    last[:] = [number[0] for number in numbers]
    return changed


def names_of(holder: Any) -> dict[str, Any]:
    """The dictionary that a module or a class keeps its names in; of a class, that behind its proxy."""
    names: dict[str, Any] = gc.get_referents(vars(holder))[0] if isinstance(holder, type) else vars(holder)
    return names


def space_of(title: str, holder: Any, is_ours: bool, with_engine: bool) -> Space:
    names = names_of(holder)
    return Space(
        title,
        names,
        dict(names),
        list(names.values()),
        is_ours,
        is_whole=is_ours or isinstance(holder, type),
        may_grow=hasattr(holder, "__path__"),
        is_fixed=title not in KEEPS_STATE and (with_engine or not title.startswith("mini_vllm")),
    )


def holders(folders: Sequence[Path]) -> Iterator[tuple[str, Any, bool]]:
    """Modules and the classes in them: (title, holder, whether it is labkit's, the tests' or the engine's)."""
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        is_ours = top in OURS or any(
            folder in Path(getattr(module, "__file__", None) or "").parents for folder in folders
        )
        if is_ours or top in sys.stdlib_module_names or name in ARRAYS:
            yield name, module, is_ours
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == name:
                    yield f"{name}.{value.__qualname__}", value, is_ours
