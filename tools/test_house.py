"""Rooms keep out of each other: no private name of another room is used, and no attribute of its objects is set.

The tree is read and nothing is imported, so an object is known by the name of its attribute alone: a name that a class
of this room has is taken for this room's. What crosses a border on purpose is in a list with its reason, and leaves the
list when it crosses no longer.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "mini_vllm"
OWN = {"self", "cls"}
OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}  # private by their looks only
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

PRIVATE = {  # by room: names, and why they are used there
    "worker": {
        "_dynamo": "torch has no public name for marking a dimension as dynamic",
        "_schema": "torch has no public name for whether an operator changes its arguments",
    },
    "models": {
        "_is_mkldnn_bf16_supported": "torch has no public name for it",
        "_linear_pointwise": "torch has no public name for it",
        "_reorder_linear_weight": "torch has no public name for it",
        "_weight_int8pack_mm": "torch has no public name for it",
    },
    "parallel": {"_exit": "Python's own name for ending a process at once"},
}
SET = {  # by room: attributes of another room's objects, and why they are set there
    "attention": {
        "num_tokens": "a field of WriteStruct, which ctypes makes of a text",
        "output": "a field of PlanStruct, which ctypes makes of a text",
    },
    "engine": {
        "future": "a step in hand gets it when it has begun",
        "num_computed_tokens": "a step that failed is taken back",
    },
    "offload": {
        **dict.fromkeys(
            ("num_cached_tokens", "num_computed_tokens", "status"), "a scheduler owns the counters of its requests"
        ),
    },
    "policies": {
        **dict.fromkeys(
            ("num_cached_tokens", "num_computed_tokens", "num_preemptions", "num_prefill_tokens", "status"),
            "a scheduler owns the counters of its requests",
        ),
        "block_hashes": "a fork begins as a copy of its parent",
        "preempted_req_ids": "a scheduler fills its own output",
        "ref_cnt": "a manager owns its blocks",
    },
    "serving": {"limits": "they are those of the engine in the other process"},
    "simulator": {"proposer": "drafts that are right at random"},
    "spec_decode": {
        "drafts": "a scheduler fills its own output",
        "num_computed_tokens": "a scheduler owns the counters of its requests",
        "output_token_ids": "drafts are tokens for the time of one call",
    },
    "cli": {
        "num_counted": "a run without a server counts its own tokens",
        "setattr": "sys has three streams, and each may be gone",
    },
}


class Use(NamedTuple):
    """Where a name of another room is used, or an attribute set."""

    room: str
    name: str
    place: str


def room_of(path: Path) -> str:
    parts = path.parts
    return parts[0] if len(parts) > 1 else "."


@cache
def read(package: Path) -> dict[Path, ast.Module]:
    paths = [path.relative_to(package) for path in sorted(package.rglob("*.py"))]
    wanted = [path for path in paths if not path.name.startswith(("test_", "conftest"))]
    return {path: ast.parse((package / path).read_text(encoding="utf-8")) for path in wanted}


def defined_names(tree: ast.Module) -> Iterator[str]:
    """Names of functions, classes and variables, and attributes that an object sets on itself."""
    for node in ast.walk(tree):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
            yield node.attr


def attributes_of_classes(tree: ast.Module) -> Iterator[str]:
    """Fields, and attributes that an object sets on itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
                yield from (target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
            yield node.attr


def is_own(node: ast.expr) -> bool:
    """Whether node is this object, its class or its base."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "super"
    return isinstance(node, ast.Name) and node.id in OWN


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in OF_NAMED_TUPLES


def foreign_private_names(trees: dict[Path, ast.Module]) -> Iterator[Use]:
    """Private attributes of other objects that this room does not define, and private names that are imported."""
    defined = defaultdict(set)
    for path, tree in trees.items():
        defined[room_of(path)].update(defined_names(tree))
    for path, tree in trees.items():
        room = room_of(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_own(node.value):
                if node.attr not in defined[room]:
                    yield Use(room, node.attr, f"{path}:{node.lineno} {ast.unparse(node)}")
            elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith(f"mini_vllm.{room}"):
                for name in (alias.name for alias in node.names if is_private(alias.name)):
                    yield Use(room, name, f"{path}:{node.lineno} imports {name}")


def foreign_attributes_set(trees: dict[Path, ast.Module]) -> Iterator[Use]:
    """Attributes that classes of other rooms have, and none of this room, set on an object that is not self."""
    attributes = defaultdict(set)
    for path, tree in trees.items():
        attributes[room_of(path)].update(attributes_of_classes(tree))
    everywhere = set().union(*attributes.values())
    for path, tree in trees.items():
        room = room_of(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                is_foreign = node.attr in everywhere and node.attr not in attributes[room]
                if is_foreign and not is_own(node.value):
                    yield Use(room, node.attr, f"{path}:{node.lineno} {ast.unparse(node)}")
            elif isinstance(node, ast.Call) and node.args and not is_own(node.args[0]):
                name = ast.unparse(node.func).rpartition(".")[2]
                if name in ("setattr", "__setattr__"):
                    yield Use(room, "setattr", f"{path}:{node.lineno} {ast.unparse(node)}")


def compare(uses: list[Use], allowed: dict[str, dict[str, str]]) -> None:
    """Everything that is used is allowed, and everything that is allowed is used."""
    assert [use.place for use in uses if use.name not in allowed.get(use.room, {})] == []
    wanted = {(room, name) for room, names in allowed.items() for name in names}
    assert wanted - {(use.room, use.name) for use in uses} == set(), "these may leave the list"


def test_no_room_uses_a_private_name_of_another() -> None:
    compare([*foreign_private_names(read(PACKAGE))], PRIVATE)


def test_no_room_sets_an_attribute_of_another_rooms_object() -> None:
    compare([*foreign_attributes_set(read(PACKAGE))], SET)


@pytest.mark.parametrize(
    ("finder", "line", "found"),
    [
        (foreign_private_names, "queue._head.x", "_head"),
        (foreign_private_names, "from mini_vllm.heart.pool import _find", "_find"),
        (foreign_private_names, "self._head", None),
        (foreign_private_names, "row._replace(x=1)", None),
        (foreign_private_names, "other._own", None),
        (foreign_attributes_set, "queue.num_free = 1", "num_free"),
        (foreign_attributes_set, "queue.num_free += 1", "num_free"),
        (foreign_attributes_set, "del queue.num_free", "num_free"),
        (foreign_attributes_set, "a, queue.num_free = 1, 2", "num_free"),
        (foreign_attributes_set, "setattr(queue, name, 1)", "setattr"),
        (foreign_attributes_set, "object.__setattr__(queue, name, 1)", "setattr"),
        (foreign_attributes_set, "object.__setattr__(self, name, 1)", None),
        (foreign_attributes_set, "x = queue.num_free", None),
        (foreign_attributes_set, "shelf.width = 1", None),
    ],
)
def test_what_is_found(finder: object, line: str, found: str | None, tmp_path: Path) -> None:
    (tmp_path / "heart").mkdir()
    (tmp_path / "shop").mkdir()
    queue = "class Queue:\n    num_free: int = 0\n    def __init__(self):\n        self._head = None\n"
    (tmp_path / "heart" / "pool.py").write_text(f"{queue}def _find(): ...\n")
    (tmp_path / "shop" / "shelf.py").write_text("class Shelf:\n    width = 0\n    def _own(self): ...\n")
    (tmp_path / "shop" / "desk.py").write_text(f"def f(self, queue, other, row, shelf, name):\n    {line}\n")
    assert callable(finder)
    assert [use.name for use in finder(read(tmp_path))] == ([found] if found else [])
